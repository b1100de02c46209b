"""Pure functions and small parts, each by itself."""

"""The dashboard: pages that a server draws, readable and usable without JavaScript."""

"""The tests of Outlast: see CONTRIBUTING.md for their levels."""

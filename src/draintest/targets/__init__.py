"""Targets that ship with the drain test, by name."""

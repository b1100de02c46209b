"""The checks: pure functions of a scenario's history. They say what they saw, and what is wrong."""

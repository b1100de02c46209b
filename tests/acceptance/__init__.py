"""Whole workers, harmed for real, and judged from outside."""

"""Benchmarks: what is measured, and where it runs."""

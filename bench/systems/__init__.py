"""The systems that are measured: an adapter each, run by the Python of its own environment."""

"""The process that runs agents."""

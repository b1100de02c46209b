"""The command line: what it prints, what it exits with, what it says when it refuses."""

"""Outlast as a target: judged through its commands and what they print, like any other."""

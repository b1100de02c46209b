"""The words and the rules: pure values and functions, no clock, no disk, no network."""

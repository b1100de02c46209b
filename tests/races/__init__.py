"""The races and deaths of tests/faults, short enough for every `make test`."""

"""The command line: one file per family of commands, loaded when it is asked for."""

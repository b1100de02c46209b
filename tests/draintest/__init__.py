"""The drain test on trial: whether it finds what is broken, and nothing where nothing is."""

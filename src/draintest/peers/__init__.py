"""Other systems as targets: each a file of settings and an adapter that runs with its library."""

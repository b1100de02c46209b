"""The server, over real HTTP."""

"""What is shown of a store, to people and programs alike: by the command line and by the server."""

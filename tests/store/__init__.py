"""One text of the store's promises, run on every database."""

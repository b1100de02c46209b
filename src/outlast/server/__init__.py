"""The server: the store over HTTP for workers, an API and a dashboard for people, metrics."""

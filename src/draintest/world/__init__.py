"""The world outside of the target: what its tools act upon, and the witness of what they did."""

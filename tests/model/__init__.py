"""The protocol of Outlast as a state machine that is searched to its end."""

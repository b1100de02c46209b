"""What can be done with tasks, done in SQL: verbs in, plain values out, one transaction each."""

"""How costs grow on PostgreSQL, a file for each thing that grows."""

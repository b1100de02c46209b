"""Real harm to real processes, servers and files; and what judges it afterwards."""

"""What a run leaves for people and programs: the report, JUnit, and the sums over all files."""

"""The house: what holds for the shape of the code, whatever it does."""

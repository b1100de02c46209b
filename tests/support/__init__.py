"""What tests stand on: real servers, real processes, a wire that can be cut."""

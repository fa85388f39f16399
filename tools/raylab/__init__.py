"""A real Ray cluster on the nodes of a netlab of this machine: for tests and demos."""

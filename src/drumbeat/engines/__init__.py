"""Engines: each starts N agents, says what became of them, stops them and tells about machines. One file each."""

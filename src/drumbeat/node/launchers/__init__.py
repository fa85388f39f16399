"""The node's part in a launcher: one package for each that needs more than processes with variables."""

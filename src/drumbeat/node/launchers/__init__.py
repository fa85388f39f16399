"""A node's part in launchers: a package for each launcher that needs more than processes with variables."""

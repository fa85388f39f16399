"""A server for a team on this machine: its files, and how they are put in place."""

"""The public REST API: one file for each kind of object."""

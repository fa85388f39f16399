"""A job's code and data on a node: cached by content, fetched, mounted, unpacked."""

"""The metrics of a node: an HTTP endpoint for its ranks, a spool of their writes, and its transfer to the server."""

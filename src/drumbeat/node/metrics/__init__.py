"""The metrics of a node: an HTTP endpoint for its ranks, a spool of what they wrote, and its way to the server."""

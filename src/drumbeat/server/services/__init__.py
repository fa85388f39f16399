"""Services of jobs in a browser: each has a port, and so an origin, of its own on the server."""

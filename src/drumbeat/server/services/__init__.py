"""Services of jobs in a browser, each with a port, and thus an origin, of its own on the server."""

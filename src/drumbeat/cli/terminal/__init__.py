"""The terminal itself: styles, escaping, JSON output, help, the connection to the server, exit codes."""

"""Following a job in the terminal: its log lines, its status line, its end."""

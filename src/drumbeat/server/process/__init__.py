"""The server process: start, serving, stop when idle."""

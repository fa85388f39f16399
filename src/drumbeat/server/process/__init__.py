"""The server as a process: started, serving, stopped when idle."""

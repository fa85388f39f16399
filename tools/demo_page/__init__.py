"""A server with the jobs that a page is judged by, for looking at it and for its pictures. See `__main__.py`."""

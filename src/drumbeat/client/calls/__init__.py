"""The calls of `Client`: one file for each kind of object, and a class that `Client` inherits.

What belongs to jobs, and to the server as a whole, is in `client.py` itself.
"""

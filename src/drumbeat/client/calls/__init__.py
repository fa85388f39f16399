"""The calls of `Client`: one file for each kind of object, and a class that `Client` inherits.

What belongs to jobs alone is in `client.py` itself.
"""

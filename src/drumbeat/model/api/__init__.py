"""The vocabulary of the REST API: what the server answers and the client reads, one module for each kind of object.

Plain dataclasses of the standard library. FastAPI makes the response models and `docs/openapi.json` of these same
classes; the client reads them with `wire.from_wire`. A field without a default is always in an answer; one with a
default was added later. `constraints` has what a request body must satisfy.
"""

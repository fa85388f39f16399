"""The engine over a Ray cluster, by its dashboard's REST API. The server's machine needs no Ray."""

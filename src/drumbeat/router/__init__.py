"""The router of scoring requests: clients on one side, replicas that dial in on the other.

One process per home, `python -m drumbeat.router`, which outlives the server and needs no answer of it: what it must
know stands in a file that the server replaces (`model/routing_table.py`).
"""

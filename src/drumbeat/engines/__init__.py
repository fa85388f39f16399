"""Engines: each starts N agents, reports their state, stops them and describes the machines.

An engine is a package; `local` is a file. `remote_engine` has what engines share that reach each machine by a command,
`remote_host` is one such machine; `poller` polls a cluster, `own_address` finds the address at which a cluster's
machines call the server.
"""

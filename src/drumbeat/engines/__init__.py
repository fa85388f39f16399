"""Engines: each starts N agents, says what became of them, stops them and tells about machines.

An engine is a package; `local` is a file. `remote_engine` has what the engines share that reach machines by a command,
`remote_host` one such machine; `poller` says how often a cluster is asked, `own_address` at which address its machines
call the server.
"""

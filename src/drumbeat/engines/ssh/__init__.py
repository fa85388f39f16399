"""The engine over a handful of hosts, by the system's own ssh: its configuration, its keys, its known hosts.

`login` has the command line of ssh and its options, `ssh_host` copies the host program to a host, runs it, and
translates ssh's errors; `engine` is the engine over them. Nothing is installed: a host needs only Python.
"""

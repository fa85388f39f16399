"""The engine over a handful of hosts, by the system's own ssh: its configuration, its keys, its known hosts.

`login` has the command line of ssh and its options, `ssh_host` runs the host program there, brings it, and says what
ssh's errors mean; `engine` is the engine over them. Nothing is installed: all that a host needs is Python.
"""

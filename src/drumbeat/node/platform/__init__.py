"""The foundation of the node's other packages: disk, locks, network, the link to the server.

It imports none of them.
"""

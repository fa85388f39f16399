"""What the rest of the agent stands on: disk, locks, network, the link to the server.

Imports no other room of the agent.
"""

"""Processes beside a node's ranks for users: services and sessions, and the tunnels that lead to them."""

"""What runs on a node: the agent, which talks to the server, and the keeper, which holds the ranks.

The keeper imports nothing but the standard library, and little of it: it must be up in milliseconds and stay small.
"""

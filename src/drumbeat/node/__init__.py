"""The processes of a node, with the standard library alone: agent, supervisor, inputs, environments, launchers,
metrics.
"""

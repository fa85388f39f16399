"""Registered models: versions, aliases, stages, signed statements."""

"""Registered models: their signed statements."""

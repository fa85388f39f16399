"""Pipelines: steps are bound, reused, started."""

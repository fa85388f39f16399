"""Pipelines: the jobs of their steps, and what of earlier ones is reused."""

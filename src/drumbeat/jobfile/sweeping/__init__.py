"""Sweep jobs: search spaces, sampling, early termination."""

"""Metrics of jobs: taken from nodes, read by people, compared; experiments."""

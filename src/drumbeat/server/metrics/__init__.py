"""Metrics and runs: curves, experiments, comparisons, MLflow's API."""

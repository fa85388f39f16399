"""Samplers that use the results of trials. Optuna runs in a process of its own; no other module imports it."""

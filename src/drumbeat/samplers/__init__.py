"""Samplers: what chooses the values of trials. Optuna runs in a process of its own; nothing else here imports it."""

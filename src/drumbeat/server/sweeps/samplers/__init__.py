"""Samplers that learn from the results of trials. Optuna runs in a process of its own; nothing else imports it."""

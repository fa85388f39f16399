"""Pipelines as pure functions: which steps there are, what each takes, the job of each, and when one is reused."""

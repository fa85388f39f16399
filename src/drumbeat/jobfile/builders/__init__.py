"""Python objects that build jobs: commands, sweeps, pipelines and estimators, changed freely and checked at the end."""

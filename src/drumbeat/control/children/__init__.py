"""The children of sweeps and pipelines: submitted, watched, canceled."""

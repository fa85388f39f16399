"""Slurm clusters, by Slurm's own commands: render (the batch script), words, client, engine."""

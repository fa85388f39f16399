"""Disk space: its use, deletion of jobs, pruning."""

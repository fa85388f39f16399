"""Outputs of jobs: published after the job's end, or written by the ranks through links."""

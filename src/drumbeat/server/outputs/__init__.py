"""Outputs of jobs: published, registered, found again."""

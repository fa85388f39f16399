"""Nodes of running jobs: gangs, heartbeats, hangs, stacks, and the API that agents call."""

"""Sweeps: what their trials are proposed from, and the requests of the trials."""

"""Computes: what a user writes of the machines that jobs run on."""

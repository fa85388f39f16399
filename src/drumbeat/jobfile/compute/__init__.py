"""Computes: what a person writes of the machines that jobs run on."""

"""Computes: their engines, machines, states and scaling."""

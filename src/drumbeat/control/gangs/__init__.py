"""Carrying out effects on a job's nodes, and watching them."""

"""Environments read: conda files and requirements with their lines, references, curated names. All of it is pure."""

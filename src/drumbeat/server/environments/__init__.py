"""Environments that nodes have made and hand on: who makes which, and the files of those that are made."""

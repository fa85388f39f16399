"""Protects the files that ranks save to their checkpoint folder: a complete one survives if a rank dies while it writes
the next.
"""

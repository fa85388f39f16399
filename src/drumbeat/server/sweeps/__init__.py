"""Sweeps: trials are proposed, started, reported and compared."""

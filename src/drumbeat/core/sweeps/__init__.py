"""Sweeps: which values a trial gets, which trials are stopped early, and which one is the best. No clock, no chance."""

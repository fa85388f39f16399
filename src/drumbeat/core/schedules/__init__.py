"""Schedules: when their jobs are due, and what becomes of times that were missed. Pure."""

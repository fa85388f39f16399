"""Schedules: kept by name, and their jobs submitted when they are due."""

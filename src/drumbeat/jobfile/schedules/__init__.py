"""Schedules: when a job is submitted again and again, and which job it is."""

"""The pre-flight: before the ranks start, the nodes of a job measure themselves and their links.

The core judges the measurements (`core/diagnosis/preflight.py`).
"""

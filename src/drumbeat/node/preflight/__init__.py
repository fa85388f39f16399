"""The pre-flight: what the nodes of a job measure of themselves and of their links before the ranks start.

Pure: `tournament`. The core judges the measurements (`core/diagnosis/preflight.py`).
"""

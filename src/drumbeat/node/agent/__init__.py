"""The agent of one node of an attempt: what it is told, does and reports."""

"""The command job: its models, and the Python objects that build one."""

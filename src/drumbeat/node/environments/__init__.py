"""The Python environments of a node: made once, in a folder that all jobs of a user share, and found again.

`environment_builder` makes one or waits for the agent that does; `interpreters` and `install_commands` choose with
what; `install_errors` says what was wrong; `folders` holds the locks and pins, `garbage_collection` frees space.
"""

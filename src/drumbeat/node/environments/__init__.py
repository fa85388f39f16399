"""The Python environments of a node: built once, in a folder that all jobs of a user share, and reused.

`environment_builder` builds one or waits for the agent that builds it; `interpreters` and `install_commands` choose the
tools; `install_errors` explains failures; `folders` has the locks and pins, `garbage_collection` frees space.
"""

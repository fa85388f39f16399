"""The use cases: submit, plan, cancel, hear agents, and the loop that keeps every job moving.

Talks to the outside through `drumbeat.ports` only. `control.Control` puts the use cases together.
"""

"""The agent of one node of an attempt: its directives, actions and reports."""

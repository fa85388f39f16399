"""Job files that the command line drafts: from the options of `run` and `plan`, and from a script."""

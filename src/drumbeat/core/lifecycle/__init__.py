"""The life of a job: states, events, transitions, verdicts. Pure."""

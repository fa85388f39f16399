"""Jobs: submitted, planned, shown, cancelled, deleted; their events, logs and files."""

"""Space: jobs are removed, unused snapshots and caches freed, and what takes space is listed."""

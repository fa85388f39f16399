"""Notice targets: what a user writes of where a server reports the ends of jobs."""

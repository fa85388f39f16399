"""Notice targets: what a person writes of where a server reports the ends of jobs."""

"""The one thread that changes jobs, and how several servers share it."""

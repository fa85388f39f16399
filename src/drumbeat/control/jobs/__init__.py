"""From a client's request to a job: previewed or submitted."""

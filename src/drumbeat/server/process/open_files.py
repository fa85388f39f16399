"""How many files the server may have open: each page, follower, service and agent holds a connection."""

from __future__ import annotations

import resource

MAX_FILES = 1 << 16
"""Programs that the server starts inherit the limit, and some of them close every number below it one by one."""


def raise_file_limit(most: int = MAX_FILES) -> None:
    """Raises the soft limit of open files to the hard one, or to `most` where that is lower."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = most if hard == resource.RLIM_INFINITY else min(hard, most)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))

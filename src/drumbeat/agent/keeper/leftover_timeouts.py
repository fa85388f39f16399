"""The timeouts for ending what a round or an errand leaves behind.

The grace of the ranks themselves is `grace_s` of the plan (`dialect/job/timeouts_and_retries.py`).
"""

LEFTOVER_GRACE_S = 1.0
"""Between SIGTERM and SIGKILL, for what a round or a command leaves behind."""
KILL_TIMEOUT_S = 10.0
"""After SIGKILL, for a process that cannot be killed (a disk that hangs)."""
ENDING_INTERVAL_S = 0.03
"""How often they are looked at."""

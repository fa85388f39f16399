"""How long processes that are being ended may take, for rounds and errands alike."""

LEFTOVER_GRACE_S = 1.0
"""Between SIGTERM and SIGKILL, for what a round or a command leaves behind."""
KILL_TIMEOUT_S = 10.0
"""After SIGKILL, for a process that cannot be killed (a disk that hangs)."""
ENDING_INTERVAL_S = 0.03
"""How often they are looked at."""

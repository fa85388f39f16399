"""The liveness pipe, which a rank passes on to its launcher's own child: when it closes, that child has ended."""

LIVENESS_FILE = "DRUMBEAT_ROPE"
"""The variable that tells a rank the number of the write end, which it has open."""

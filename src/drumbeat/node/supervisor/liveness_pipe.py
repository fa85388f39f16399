"""The liveness pipe, which a rank passes on to its launcher's child: when it closes, that child has ended."""

LIVENESS_FILE = "DRUMBEAT_ROPE"
"""The variable of a rank with the number of the open write end."""

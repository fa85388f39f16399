"""The excerpt of a rank's log that is sent with its exit, for users and the diagnosis: its last lines, and the error
above them.

The server answers `drumbeat logs --tail` (`server/jobs/log_routes.py`).
"""

from __future__ import annotations

import os
import re

from drumbeat.model.agent import LEFT_OUT
from drumbeat.node.logs.first_failure import first_failure

TAIL_BYTES, TAIL_LINES = 4096, 60
REACH_BYTES, FAR_BYTES = 64 << 10, 2048
"""How far back a traceback is searched for, and how much of it is kept."""
_TRACEBACK = re.compile(rb"^(?:\[rank\d+\]: ?)?Traceback \(most recent call last\):\n", re.MULTILINE)
_ITS_ERROR = re.compile(rb"^(?:\[rank\d+\]: ?)?[^\s\[].*$", re.MULTILINE)
_HANDLED = re.compile(rb"\b(?:DEBUG|INFO|WARN|WARNING|ERROR|CRITICAL|FATAL)\b|^Exception |^Process \S+:")
"""Marks, in the line before a traceback, that it was logged or came from another thread or process, and the program
continued.
"""


FULL_BYTES = 64 << 10
"""A disk with less free space counts as full."""


def failure_excerpt(path: str, *, is_raised: bool = False) -> str:
    """The end of a log for users: at most 60 lines and 4 KiB, "" when there is none.

    It begins with the failure of the first of several processes in it. is_raised: the rank ended as Python does on an
    uncaught error; then an earlier traceback is included, too.
    """
    try:
        with open(path, "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - REACH_BYTES))
            seen = file.read(REACH_BYTES)
    except OSError:
        return ""
    end = last_lines(seen[-TAIL_BYTES:])
    lines = end.count("\n") + 1
    first = first_failure(seen, _tail_start(seen, lines))
    far = _far_error(seen, lines) if is_raised and not first else ""
    return "\n".join(part for part in (first, far, LEFT_OUT if far else "", end, _disk_is_full(path)) if part)


def _tail_start(seen: bytes, lines: int) -> int:
    """The offset of the last `lines` lines."""
    return sum(len(line) + 1 for line in seen.rstrip(b"\n").split(b"\n")[:-lines])


def _far_error(seen: bytes, lines: int) -> str:
    """The last uncaught traceback, if it precedes the last `lines` lines; "" = none does."""
    headers = reversed(list(_TRACEBACK.finditer(seen)))
    header = next((one for one in headers if not _is_handled(seen, one.start())), None)
    error = _ITS_ERROR.search(seen, header.end()) if header else None
    if header is None or error is None or error.start() >= _tail_start(seen, lines):
        return ""
    return seen[header.start() : error.end()][-FAR_BYTES:].decode("utf-8", "replace")


def _is_handled(seen: bytes, begin: int) -> bool:
    """Whether the program continued after the traceback that begins there."""
    line_before = seen[:begin].rstrip(b"\n").rpartition(b"\n")[2]
    return _HANDLED.search(line_before) is not None


def _disk_is_full(path: str) -> str:
    """The error of a full disk, on which a rank can't even log why it ended."""
    try:
        disk = os.statvfs(os.path.dirname(path))
    except OSError:
        return ""
    if disk.f_bavail * disk.f_frsize >= FULL_BYTES:
        return ""
    return "OSError: [Errno 28] No space left on device (added by drumbeat: the node's disk is full)"


def last_lines(end: bytes) -> str:
    """The last lines of these bytes; invalid UTF-8 is replaced."""
    return "\n".join(end.decode("utf-8", "replace").rstrip("\n").split("\n")[-TAIL_LINES:])

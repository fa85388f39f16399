"""The folder of a node's metrics, which the agent and the endpoint's process share.

- enrolment.json: the agent's; endpoint.json: port and token, chosen once for the attempt
- endpoint.lock: held by the living process; state.json: its identity
- spool/, sent: the records of the ranks, and how far the server has them
- keeper.pid: the supervisor, whose descendants are the ranks
"""

from __future__ import annotations

import contextlib
import json
import os
from typing import Any

from drumbeat.node.host import processes
from drumbeat.node.platform.files import write_whole

OVER, STUCK = "over", "stuck"
SEGMENT = "{:020d}"
"""The name of a segment of the spool: the offset at which it begins."""
_MAX_READINGS = 5
"""Of a record that changes between one reading and the next."""


class MetricsFolder:
    """The folder below the root of an attempt."""

    def __init__(self, root: str) -> None:
        self.path = f"{root}/metrics"
        self.spool, self.sent, self.log = f"{self.path}/spool", f"{self.path}/sent", f"{self.path}/endpoint.log"

    def read(self, name: str) -> dict[str, Any]:
        """Returns the object in one of the files, {} = none."""
        with contextlib.suppress(OSError, ValueError), open(f"{self.path}/{name}.json", encoding="utf-8") as file:
            return json.load(file)
        return {}

    def write(self, name: str, value: dict[str, Any]) -> None:
        """Replaces one of the files. Raises OSError."""
        write_whole(f"{self.path}/{name}.json", json.dumps(value), 0o600)

    @property
    def lock(self) -> str:
        """The lock of the endpoint's process."""
        return f"{self.path}/endpoint.lock"

    def endpoint_pid(self) -> int:
        """Returns the pid of the living process, 0 = there is none."""
        state = self.read("state")
        return state["pid"] if state and processes.is_still(state["pid"], state["born"]) else 0

    def supervisor_pid(self) -> int:
        """Returns the supervisor whose descendants are the ranks, 0 = unknown."""
        with contextlib.suppress(OSError, ValueError), open(f"{self.path}/keeper.pid", encoding="ascii") as file:
            return int(file.read())
        return 0

    def set_supervisor(self, pid: int) -> None:
        """Records the supervisor of the ranks."""
        with contextlib.suppress(OSError):
            write_whole(f"{self.path}/keeper.pid", str(pid), 0o600)


def end_endpoint(root: str) -> None:
    """Ends the endpoint of an attempt; records that it has answered are not lost."""
    folder = MetricsFolder(root)
    state = folder.read("state")
    if state:
        processes.end_one(state["pid"], state["born"], lambda: None)


def exists(root: str) -> bool:
    """Whether an agent of this attempt has begun to take metrics."""
    return os.path.isdir(f"{root}/metrics")


def sent_offset(file: str) -> int:
    """Returns how far a spool has been sent; 0 = nothing, as far as is known."""
    return _kept(file)[0]


def is_over(file: str) -> bool:
    """Whether a spool is not sent any further although it is incomplete at the server."""
    return _kept(file)[1] == OVER


def is_stuck(file: str) -> bool:
    """Whether the server answers but fails to accept the records."""
    return _kept(file)[1] == STUCK


def loss_reason(file: str) -> str:
    """Returns why the server won't receive all of a spool, "" = it will, or users need not know."""
    return _kept(file)[2]


def skip_reason(file: str) -> str:
    """Returns why lines of a spool were skipped, "" = none was."""
    return _kept(file)[3]


def keep_sent(file: str, sent: int, word: str = "", why: str = "", skipped: str = "") -> None:
    """Records how far a spool has been sent; a lost offset costs only a request. word: "", OVER or STUCK.

    The record is overwritten in place, which needs no disk space, because an agent waits for it even on a full disk. It
    is one write of constant length, so a reader never sees the end of an earlier text; it reads until the text stands.
    """
    text = f"{sent:020d}\n{word}\n{_one_line(why)}\n{_one_line(skipped)}\n".encode()
    with contextlib.suppress(OSError):
        opened = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.pwrite(opened, text.ljust(os.fstat(opened).st_size, b"\n"), 0)
        finally:
            os.close(opened)


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _read_whole(file: str) -> str:
    """Reads a record that may be overwritten meanwhile: again, until two readings are the same."""
    with open(file, "rb") as opened:
        before, text = b"", opened.read()
        for _ in range(_MAX_READINGS):
            if text == before:
                break
            opened.seek(0)
            before, text = text, opened.read()
    return text.decode()


def _kept(file: str) -> tuple[int, str, str, str]:
    """Returns the spool's sent offset, its word, why the server won't receive all of it, and why lines were skipped."""
    try:
        number, word, why, skipped, *_ = [*_read_whole(file).split("\n"), "", "", ""]
        return int(number), word, why or skipped, skipped
    except (OSError, ValueError):
        return 0, "", "", ""


def segments(folder: str) -> list[int]:
    """Returns the offsets at which the segments in a folder begin; [] = no spool."""
    try:
        return sorted(int(name) for name in os.listdir(folder) if name.isdecimal())
    except FileNotFoundError:
        return []


def spool_length(folder: str) -> int:
    """Returns the length of the spool in a folder, as seen by another process; 0 = none."""
    newest = next(reversed(segments(folder)), None)
    return 0 if newest is None else newest + os.path.getsize(f"{folder}/{SEGMENT.format(newest)}")

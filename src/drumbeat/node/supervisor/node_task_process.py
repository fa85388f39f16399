"""Runs one command for an agent, with all its descendants: `… node.supervisor.node_task_process FOLDER`.

The request (`model.supervisor`) comes on stdin as a line of JSON, the result goes to stdout. The agent keeps stdin
open: when it closes, on purpose or because the agent is gone, the command gets SIGTERM, and SIGKILL after `grace_s`.
All descendants of the command end with it, and the next node task in FOLDER ends the rest of one that was killed
itself.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import sys
import time

from drumbeat.model import wire
from drumbeat.model.supervisor import NodeTaskRequest, NodeTaskResult
from drumbeat.node.host import processes
from drumbeat.node.supervisor import rank_start
from drumbeat.node.supervisor.confinement import ENDING_INTERVAL_S, KILL_TIMEOUT_S, LEFTOVER_GRACE_S, choose, end_rest
from drumbeat.node.supervisor.listener import hold_folder, read_marker
from drumbeat.node.supervisor.signal_pipe import SignalPipe

_PREDECESSOR_S = 60.0
"""How long a node task waits, beyond the grace time, for an earlier one in its folder whose agent is gone."""


class NodeTask:
    """One command: running → (stopping) → leftovers are ended → over."""

    def __init__(self, folder: str, request: NodeTaskRequest) -> None:
        self._request = request
        self._confinement = choose(folder, read_marker(folder))
        self._selector = selectors.DefaultSelector()
        self._signals = SignalPipe(self._selector)
        self._selector.register(0, selectors.EVENT_READ)
        self._pid = 0
        self._code: int | None = None
        self._kill_at: float | None = None
        self._asked_rest = False

    def run(self) -> NodeTaskResult:
        """Runs the command, and returns when none of its processes is left."""
        self._confinement.open()
        try:
            self._pid = rank_start.start(self._request.process, self._confinement)
        except OSError as error:
            self._confinement.close()
            return NodeTaskResult(127, str(error.strerror))
        while (code := self._code) is None or self._has_rest():
            self._listen()
            self._reap()
            self._end_in_time()
        self._confinement.close(is_empty=not self._confinement.members())
        return NodeTaskResult(code)

    def _listen(self) -> None:
        for key, _ in self._selector.select(self._pause_s()):
            is_asked = signal.SIGTERM in self._signals.read() if key.fd else not os.read(0, 4096)
            if is_asked:
                with contextlib.suppress(KeyError):
                    self._selector.unregister(0)
                self._stop(self._request.grace_s)

    def _stop(self, grace_s: float) -> None:
        if self._kill_at is None:
            self._kill_at = time.monotonic() + grace_s
            self._confinement.ask()

    def _reap(self) -> None:
        for pid, code in processes.ended_children():
            if pid == self._pid:
                self._code = code

    def _end_in_time(self) -> None:
        if self._code is not None and not self._asked_rest:
            self._asked_rest = True
            self._kill_at = min(self._kill_at or float("inf"), time.monotonic() + LEFTOVER_GRACE_S)
            self._confinement.ask(helpers=True)
        if self._kill_at is not None and time.monotonic() >= self._kill_at:
            self._confinement.kill()

    def _has_rest(self) -> bool:
        is_hopeless = self._kill_at is not None and time.monotonic() > self._kill_at + KILL_TIMEOUT_S
        return not is_hopeless and bool(self._confinement.members())

    def _pause_s(self) -> float | None:
        if self._code is not None:
            return ENDING_INTERVAL_S
        return None if self._kill_at is None else max(ENDING_INTERVAL_S, self._kill_at - time.monotonic())


def main() -> int:
    """Runs the request on stdin in the folder given as the only argument."""
    folder = os.path.abspath(sys.argv[1])
    os.chdir("/")
    request = wire.loads(NodeTaskRequest, _line())
    # Inherited files (a lock) are for this process only, not for its children.
    for file in request.kept:
        os.set_inheritable(file, False)  # noqa: FBT003 (its only spelling)
    if hold_folder(folder, name="errand", tries=int((request.grace_s + _PREDECESSOR_S) * 100)) is None:
        _report(NodeTaskResult(127, f"an earlier command in {folder} doesn't end"))
        return 75
    end_rest(folder)
    _report(NodeTask(folder, request).run())
    return 0


def _line() -> bytes:
    """Returns the first line; nothing follows it."""
    line = b""
    while not line.endswith(b"\n"):
        piece = os.read(0, 1 << 16)
        if not piece:
            sys.exit(1)
        line += piece
    return line


def _report(result: NodeTaskResult) -> None:
    with contextlib.suppress(BrokenPipeError):
        os.write(1, wire.dumps(result).encode())


if __name__ == "__main__":
    sys.exit(main())

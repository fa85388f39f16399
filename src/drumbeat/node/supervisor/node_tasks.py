"""The agent's side of its node tasks: commands beside the ranks, each in a process that ends all its descendants."""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import IO

from drumbeat.model import wire
from drumbeat.model.errors import EngineError
from drumbeat.model.programs import NODE_TASK
from drumbeat.model.supervisor import NodeTaskRequest, NodeTaskResult
from drumbeat.node.host.own_programs import program
from drumbeat.node.platform import child_processes
from drumbeat.node.supervisor.confinement import VARIABLE as CONFINEMENT
from drumbeat.node.supervisor.confinement import end_rest

MEANWHILE_INTERVAL_S = 0.5
_END_TIMEOUT_S = 15.0
"""How long beyond its grace time a node task may take to end its processes."""


@dataclass(frozen=True)
class TaskCommand:
    """The command of a node task."""

    argv: Sequence[str]
    cwd: str
    env: Mapping[str, str]
    log: str
    """The file to which its output is appended."""
    grace_s: float = 0.0
    confinement: str = ""
    """The confinement of its processes (`confinement.WAYS`), "" = the best that the machine allows."""
    kept: tuple[int, ...] = ()
    """Open files that stay open as long as one of its processes lives."""
    meanwhile: Callable[[], None] = field(default=lambda: None)
    """Is called every half second while it runs."""


class NodeTasks:
    """Runs the node tasks of one agent in folders below `root`. Thread-safe."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._lock = threading.Lock()
        self._is_ending = False

    def run(self, name: str, command: TaskCommand) -> int:
        """Runs a command; returns its exit code, or the negative signal number.

        Raises EngineError if it could not be run, or was ended because the agent leaves.
        """
        folder = f"{self._root}/{name}"
        os.makedirs(folder, mode=0o700, exist_ok=True)
        node_task = self._start(name, folder, command)
        try:
            answer = _read_all(node_task, command.meanwhile)
        finally:
            with self._lock:
                del self._running[name]
            _close(node_task)
        if self._is_ending:
            raise EngineError(f"{name} was ended: the agent is leaving")
        try:
            result = wire.loads(NodeTaskResult, answer)
        except ValueError:
            end_rest(folder)  # The task's own process was killed.
            raise EngineError(f"{name} was ended from outside (exit code {node_task.returncode})") from None
        if result.error:
            raise EngineError(f"{name} can't be run: {result.error}")
        return result.code

    def end(self, grace_s: float) -> None:
        """Ends all running tasks, waits at most the grace time and some seconds, and lets no more begin."""
        with self._lock:
            self._is_ending = True
            running = list(self._running.values())
            for node_task in running:
                _close_stdin(node_task)
        for node_task in running:
            with contextlib.suppress(subprocess.TimeoutExpired):
                node_task.wait(grace_s + _END_TIMEOUT_S)

    def _start(self, name: str, folder: str, command: TaskCommand) -> subprocess.Popen[bytes]:
        request = NodeTaskRequest(
            tuple(command.argv), command.cwd, command.log, dict(command.env), command.grace_s, command.kept
        )
        with self._lock:
            if self._is_ending:
                raise EngineError(f"{name} isn't started: the agent is leaving")
            node_task = child_processes.start(
                [*program(NODE_TASK), folder],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                pass_fds=command.kept,
                env={**os.environ, CONFINEMENT: command.confinement} if command.confinement else None,
                cwd="/",
                start_new_session=True,
            )
            self._running[name] = node_task
        with contextlib.suppress(OSError, ValueError):  # It ended at once, or is being ended: its result says so.
            _write(node_task.stdin, wire.dumps(request).encode() + b"\n")
        return node_task


def _write(pipe: IO[bytes] | None, data: bytes) -> None:
    if pipe is not None:
        pipe.write(data)
        pipe.flush()


def _read_all(node_task: subprocess.Popen[bytes], meanwhile: Callable[[], None]) -> bytes:
    """Returns the task's whole output."""
    out, answer = node_task.stdout.fileno() if node_task.stdout else -1, b""
    next_call = time.monotonic() + MEANWHILE_INTERVAL_S
    while True:
        readable, _, _ = select.select([out], [], [], max(0.0, next_call - time.monotonic()))
        if readable:
            piece = os.read(out, 1 << 16)
            if not piece:
                return answer
            answer += piece
        else:
            meanwhile()
            next_call = time.monotonic() + MEANWHILE_INTERVAL_S


def _close_stdin(node_task: subprocess.Popen[bytes]) -> None:
    if node_task.stdin is not None:
        with contextlib.suppress(OSError):
            node_task.stdin.close()


def _close(node_task: subprocess.Popen[bytes]) -> None:
    child_processes.wait(node_task)
    for file in (node_task.stdin, node_task.stdout):
        if file is not None:
            with contextlib.suppress(OSError):
                file.close()

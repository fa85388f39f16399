"""The agent's side of its errands: commands beside the ranks, each run by a process that ends all that it started."""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import IO

from drumbeat.agent.ground import children
from drumbeat.agent.keeper.confinement import VARIABLE as CONFINEMENT
from drumbeat.agent.keeper.confinement import end_rest
from drumbeat.host.program import program
from drumbeat.protocol.errors import EngineError
from drumbeat.protocol.programs import ERRAND

LOOK_S = 0.5
_LATEST_S = 15.0
"""How long past its grace time an errand may take to end what it started."""


@dataclass(frozen=True)
class Command:
    """What is to be run. log: the file that its output is added to. kept: open files that live as long as all of it.

    confinement: how what it starts is to be held on to, "" = as the machine allows.
    """

    argv: Sequence[str]
    cwd: str
    env: Mapping[str, str]
    log: str
    grace_s: float = 0.0
    confinement: str = ""
    kept: tuple[int, ...] = ()
    meanwhile: Callable[[], None] = field(default=lambda: None)
    """Called now and then while it runs."""


class Errands:
    """Those of one agent, in folders below `root`. For any thread."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._lock = threading.Lock()
        self._is_ending = False

    def run(self, name: str, command: Command) -> int:
        """Its exit code, the negative of a signal's number if that ended it.

        Raises EngineError when it couldn't be run, or was ended because the agent goes.
        """
        folder = f"{self._root}/{name}"
        os.makedirs(folder, mode=0o700, exist_ok=True)
        errand = self._start(name, folder, command)
        try:
            said = _hear(errand, command.meanwhile)
        finally:
            with self._lock:
                del self._running[name]
            _close(errand)
        if self._is_ending:
            raise EngineError(f"{name} was ended: the agent goes")
        try:
            ended = json.loads(said)
        except ValueError:
            end_rest(folder)  # Its own process was killed.
            raise EngineError(f"{name} was ended from outside (exit code {errand.returncode})") from None
        if ended["error"]:
            raise EngineError(f"{name} can't be run: {ended['error']}")
        return ended["code"]

    def end(self, grace_s: float) -> None:
        """Ends all that run; returns when they are gone, after so long at most. None is begun any more."""
        with self._lock:
            self._is_ending = True
            running = list(self._running.values())
            for errand in running:
                _let_go(errand)
        for errand in running:
            with contextlib.suppress(subprocess.TimeoutExpired):
                errand.wait(grace_s + _LATEST_S)

    def _start(self, name: str, folder: str, command: Command) -> subprocess.Popen[bytes]:
        wanted = {
            "rank": -1,
            "argv": list(command.argv),
            "cwd": command.cwd,
            "env": dict(command.env),
            "log": command.log,
            "grace_s": command.grace_s,
            "kept": command.kept,
        }
        with self._lock:
            if self._is_ending:
                raise EngineError(f"{name} isn't begun: the agent goes")
            errand = children.start(
                [*program(ERRAND), folder],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                pass_fds=command.kept,
                env={**os.environ, CONFINEMENT: command.confinement} if command.confinement else None,
                cwd="/",
                start_new_session=True,
            )
            self._running[name] = errand
        with contextlib.suppress(OSError, ValueError):  # It ended at once, or was let go: what it says tells.
            _write(errand.stdin, json.dumps(wanted).encode() + b"\n")
        return errand


def _write(pipe: IO[bytes] | None, data: bytes) -> None:
    if pipe is not None:
        pipe.write(data)
        pipe.flush()


def _hear(errand: subprocess.Popen[bytes], meanwhile: Callable[[], None]) -> bytes:
    """All that it says, to its end."""
    out, said = errand.stdout.fileno() if errand.stdout else -1, b""
    next_look = time.monotonic() + LOOK_S
    while True:
        readable, _, _ = select.select([out], [], [], max(0.0, next_look - time.monotonic()))
        if readable:
            piece = os.read(out, 1 << 16)
            if not piece:
                return said
            said += piece
        else:
            meanwhile()
            next_look = time.monotonic() + LOOK_S


def _let_go(errand: subprocess.Popen[bytes]) -> None:
    if errand.stdin is not None:
        with contextlib.suppress(OSError):
            errand.stdin.close()


def _close(errand: subprocess.Popen[bytes]) -> None:
    children.wait(errand)
    for file in (errand.stdin, errand.stdout):
        if file is not None:
            with contextlib.suppress(OSError):
                file.close()

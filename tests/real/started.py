"""Servers of other people's that tests start: had once below `.cache/`, ended with the test, however that ends."""

from __future__ import annotations

import contextlib
import fcntl
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tools.kept import KEPT

from .guard import guarded

PATIENCE_S = 60


@contextlib.contextmanager
def a_process(folder: Path, command: list[str], environment: dict[str, str]) -> Iterator[Path]:
    """A server while it lasts; the file with what it says. The folder stands in its arguments."""
    log = folder / "log"
    with guarded(folder), log.open("wb") as said:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=said, stderr=said, env=environment, cwd=folder,
            start_new_session=True,
        )  # fmt: skip
        try:
            yield log
        finally:
            process.kill()
            process.wait()


def until_there(condition: Callable[[], Any], what: str) -> Any:
    deadline = time.monotonic() + PATIENCE_S
    while not (found := condition()):
        assert time.monotonic() < deadline, f"{what} didn't come within {PATIENCE_S} s"
        time.sleep(0.05)
    return found


def free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as held:
        found = [held.enter_context(socket.socket()) for _ in range(count)]
        for one in found:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in found]


def installed(command: list[str], program: Path) -> None:
    """Runs an installer once, whoever else wants to; skips the test where it can't."""
    KEPT.mkdir(parents=True, exist_ok=True)
    with (KEPT / "stores.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if program.exists():
            return
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=250)
    if done.returncode or not program.exists():
        said = (done.stderr.strip().splitlines() or [""])[-1]
        pytest.skip(f"{program.name} isn't here, and `{Path(command[0]).name} install` failed: {said[:200]}")

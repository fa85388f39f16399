"""Servers of other users's that tests start: had once below `.cache/`, ended with the test, however that ends."""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import os
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tools.kept_programs import KeptProgram, NotFetchedError

from .guard import guarded

PATIENCE_S = 180
FIRST_PORT, END_OF_PORTS = 2_200, 5_000
LOCKS = Path(tempfile.gettempdir(), f"drumbeat-tests-ports-{os.getuid()}")


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
    """This process's own to its end: below those that the kernel or a drumbeat server takes, and locked among those who
    ask here.
    """
    LOCKS.mkdir(exist_ok=True)
    found = list(itertools.islice(filter(_is_ours_now, range(FIRST_PORT, END_OF_PORTS)), count))
    assert len(found) == count, f"no {count} ports are free from {FIRST_PORT} to {END_OF_PORTS}"
    return found


def _is_ours_now(port: int) -> bool:
    lock = os.open(LOCKS / str(port), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # As long as this process has it open.
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
    except OSError:
        os.close(lock)
        return False
    return True


def provide(program: KeptProgram) -> Path:
    """Where a kept program's file is; fetched if it is missing. Skips the test where it can't be had."""
    try:
        return program.fetch()
    except NotFetchedError as error:
        pytest.skip(str(error))

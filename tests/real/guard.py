"""Ends every process of a folder when the tests' own process ends without having done so: `kill -9` of pytest, say."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

DONE = "done"


@contextlib.contextmanager
def guarded(folder: Path) -> Iterator[None]:
    """While it lasts, what mentions `folder` in its arguments or environment dies with this process."""
    guard = subprocess.Popen([sys.executable, "-I", __file__], stdin=subprocess.PIPE, text=True, start_new_session=True)
    assert guard.stdin
    print(folder, file=guard.stdin, flush=True)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            guard.communicate(DONE)


def main() -> None:
    folder = os.fsencode(sys.stdin.readline().rstrip("\n"))
    if sys.stdin.read() == DONE:
        return
    for _ in range(100):
        for entry in Path("/proc").glob("[0-9]*"):
            end_if_of(folder, entry)
        time.sleep(0.05)


def end_if_of(folder: bytes, entry: Path) -> None:
    with contextlib.suppress(OSError):
        if folder in (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes():
            os.kill(int(entry.name), signal.SIGKILL)


if __name__ == "__main__":
    main()

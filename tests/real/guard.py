"""Ends every process and mount of a folder when the tests' own process ends without having done so: `kill -9`, say."""

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
    # Its own environment is empty: a test's may name the folder, and so it would end itself.
    guard = subprocess.Popen(
        [sys.executable, "-I", __file__], stdin=subprocess.PIPE, text=True, start_new_session=True, env={}
    )
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
    calm, end = 0, time.monotonic() + 60  # What hangs in a mount that is dead ends when that is gone.
    while calm < 100 and time.monotonic() < end:  # What was just being started may show itself late.
        ended = [entry for entry in Path("/proc").glob("[0-9]*") if is_ended(folder, entry)]
        calm = 0 if ended else calm + 1
        time.sleep(0.05)
    for place in reversed(mounts(folder.decode())):
        subprocess.run(["umount", "-l", place], check=False, capture_output=True)


def mounts(folder: str) -> list[str]:
    """What is mounted below it, in the order in which it was."""
    places = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    return [place for place in places if place.startswith(f"{folder}/")]


def is_ended(folder: bytes, entry: Path) -> bool:
    """Whether it was a process of that folder, and is ended now."""
    with contextlib.suppress(OSError):
        if folder in (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes():
            os.kill(int(entry.name), signal.SIGKILL)
            return True
    return False


if __name__ == "__main__":
    main()

"""What the agent itself has started and waits for.

All other children of its process fell to it when a keeper died, and are ended and reaped by `keeping`. For any thread.
"""

from __future__ import annotations

import threading
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import subprocess

_own: set[int] = set()
_lock = threading.Lock()
_KILLED_S = 5.0
"""How long one that was killed is waited for: the kernel may not let go of it, as while a disk doesn't answer."""


def start(words: Sequence[str], **options: Any) -> subprocess.Popen[Any]:
    """As `Popen`; whoever calls it calls `wait` later. Raises OSError."""
    import subprocess

    with _lock:
        child: subprocess.Popen[Any] = subprocess.Popen(words, **options)
        _own.add(child.pid)
    return child


def leave(child: subprocess.Popen[Any]) -> None:
    """Nobody waits for it any more: its end is seen to with that of whatever falls to this process."""
    with _lock:
        _own.discard(child.pid)


def wait(child: subprocess.Popen[Any]) -> int:
    """Its exit code, when it has ended."""
    try:
        return child.wait()
    finally:
        with _lock:
            _own.discard(child.pid)


@contextmanager
def started(words: Sequence[str], **options: Any) -> Generator[subprocess.Popen[Any]]:
    """One that has ended when the block is left. Raises OSError."""
    child = start(words, **options)
    try:
        yield child
    finally:
        wait(child)
        if child.stdout:
            child.stdout.close()


def run(
    words: Sequence[str], within_s: float, *, env: Mapping[str, str] | None = None, is_merged: bool = False
) -> subprocess.CompletedProcess[bytes]:
    """Its exit code and what it printed. is_merged: with its stderr.

    Raises OSError; TimeoutExpired when it takes longer: it is killed then, and if need be left to end when it can.
    """
    import subprocess

    stderr = subprocess.STDOUT if is_merged else subprocess.DEVNULL
    child = start(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=stderr, env=env, cwd="/")
    try:
        said, _ = child.communicate(timeout=within_s)
    except BaseException:
        child.kill()
        with suppress(subprocess.TimeoutExpired):
            child.wait(_KILLED_S)
        raise
    finally:
        leave(child)
        if child.stdout:
            child.stdout.close()
    return subprocess.CompletedProcess(words, child.returncode, said)


@contextmanager
def unchanged() -> Generator[frozenset[int]]:
    """Their process ids. None is started meanwhile, and none forgotten."""
    with _lock:
        yield frozenset(_own)

"""The child processes that the agent itself has started and waits for. Thread-safe.

All other children of its process were adopted from a dead supervisor; node/supervisor ends and reaps those.
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
"""How long to wait for a killed child: the kernel may not release it, for example while a disk doesn't answer."""


def start(words: Sequence[str], **options: Any) -> subprocess.Popen[Any]:
    """Starts a child as `Popen` does; the caller must call `wait` later. Raises OSError."""
    import subprocess

    with _lock:
        child: subprocess.Popen[Any] = subprocess.Popen(words, **options)
        _own.add(child.pid)
    return child


def leave(child: subprocess.Popen[Any]) -> None:
    """Stops waiting for a child: it is reaped with the adopted processes."""
    with _lock:
        _own.discard(child.pid)


def wait(child: subprocess.Popen[Any]) -> int:
    """Waits for the child to end, and returns its exit code."""
    try:
        return child.wait()
    finally:
        with _lock:
            _own.discard(child.pid)


@contextmanager
def started(words: Sequence[str], **options: Any) -> Generator[subprocess.Popen[Any]]:
    """Starts a child, and ends it at the end of the block. Raises OSError."""
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
    """Runs a command; returns its exit code and output. is_merged: the output includes stderr.

    Raises OSError; TimeoutExpired when it takes longer than `within_s`: the child is then killed, and abandoned if that
    fails.
    """
    import subprocess

    stderr = subprocess.STDOUT if is_merged else subprocess.DEVNULL
    child = start(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=stderr, env=env, cwd="/")
    try:
        output, _ = child.communicate(timeout=within_s)
    except BaseException:
        child.kill()
        with suppress(subprocess.TimeoutExpired):
            child.wait(_KILLED_S)
        raise
    finally:
        leave(child)
        if child.stdout:
            child.stdout.close()
    return subprocess.CompletedProcess(words, child.returncode, output)


@contextmanager
def unchanged() -> Generator[frozenset[int]]:
    """The process ids of the children; none is started or forgotten inside the block."""
    with _lock:
        yield frozenset(_own)

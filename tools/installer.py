"""Installers of what tests and demos need, run again after a failure: a package index has bad moments."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Mapping, Sequence

PAUSES_S = (3, 15, 45)
"""Between two tries: an index that is busy says that it has no such package, and is well again within a minute."""
TIMED_OUT = 124
"""As of timeout(1)."""
_failures: dict[tuple[str, ...], subprocess.CompletedProcess[str]] = {}
"""Commands that failed at every try. They fail at once from then on, so that a machine without an index loses a minute
to each command, not to each test.
"""


def run_installer(
    command: Sequence[str], *, environment: Mapping[str, str] | None = None, timeout_s: float = 250
) -> subprocess.CompletedProcess[str]:
    """Runs an installer, up to four times until it succeeds, and returns its last run. All tries together have
    timeout_s seconds; one that is cut off has TIMED_OUT as its exit code and says so in its stderr.
    """
    key = tuple(command)
    if key in _failures:
        return _failures[key]
    deadline = time.monotonic() + timeout_s
    done = _run(command, environment, timeout_s)
    for pause_s in PAUSES_S:
        if done.returncode == 0 or time.monotonic() + pause_s >= deadline:
            break
        time.sleep(pause_s)
        done = _run(command, environment, deadline - time.monotonic())
    if done.returncode:
        _failures[key] = done
    return done


def _run(
    command: Sequence[str], environment: Mapping[str, str] | None, timeout_s: float
) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=timeout_s, env=environment)
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, TIMED_OUT, "", f"not done within {timeout_s:g} s")

"""Detects that this machine is about to go: a scheduled shutdown, `/run/nologin`, or the compute's own notice.

systemd writes `/run/systemd/shutdown/scheduled` when a shutdown is scheduled, and `/run/nologin` five minutes before it
(shutdown(8), nologin(5)). The compute names the source of a cloud's early notice: a file, or a command.
`node_holder.py` passes a scheduler's SIGTERM on to the agent; Slurm's own notice of preemption is in
`engines/slurm/loss_reasons.py`.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

COMMAND_TIMEOUT_S = 5.0
_STARTS = re.compile(r"\bboot(?:ing|s)?[ -]?up\b|\b(?:is|still) booting\b", re.IGNORECASE)
"""The content of `/run/nologin` while a machine starts: systemd's "System is booting up", and similar ones."""


@dataclass(frozen=True)
class Notice:
    """The notice that the machine is about to go. why: the message. in_s: the time until then, None = any moment."""

    why: str
    in_s: float | None = None


def notice(own: str, root: Path = Path("/")) -> Notice | None:
    """The machine's notice, None = it stays. own: the compute's file or command, "" = none. root: for tests."""
    return _own(own) or _scheduled(root / "run/systemd/shutdown/scheduled") or _closed(root / "run/nologin")


def _scheduled(file: Path) -> Notice | None:
    text = _read(file)
    if text is None:
        return None
    mode = re.search(r"^MODE=(\w+)", text, re.MULTILINE)
    at = re.search(r"^USEC=(\d+)", text, re.MULTILINE)
    what = f"a {mode[1] if mode else 'shutdown'} is scheduled"
    return Notice(what, max(0.0, int(at[1]) / 1e6 - time.time()) if at else None)


def _closed(file: Path) -> Notice | None:
    """The notice of `/run/nologin`; while a machine starts, the same file keeps users out, which isn't a notice."""
    text = _read(file)
    if text is None or _STARTS.search(text):
        return None
    return Notice(_first_line(text) or "users can no longer log in (/run/nologin)")


def _own(own: str) -> Notice | None:
    if not own:
        return None
    if own.startswith("/") and not re.search(r"\s", own):
        text = _read(Path(own))
        return None if text is None else Notice(_first_line(text) or f"{own} exists")
    try:
        command = subprocess.Popen(
            ["/bin/sh", "-c", own], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            text=True, errors="replace", start_new_session=True,
        )  # fmt: skip
    except OSError:
        return None
    with command:
        try:
            output, _ = command.communicate(timeout=COMMAND_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            # With its children: it runs every second, and hanging processes would accumulate.
            os.killpg(command.pid, signal.SIGKILL)
            return None
    return Notice(_first_line(output) or "its command says so") if command.returncode == 0 else None


def _read(file: Path) -> str | None:
    try:
        with file.open(errors="replace") as opened:
            return opened.read(4096)
    except OSError:
        return None


def _first_line(text: str) -> str:
    return next((line.strip()[:200] for line in text.splitlines() if line.strip()), "")

"""Whether a server is alive, and whether it is ready to take jobs."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass

from drumbeat.model.errors import DrumbeatError
from drumbeat.server.control import Control

MAX_BEAT_AGE_S = 15.0
"""The loop renews its lease every 0.5 s; a store that doesn't answer, or a loop that stands still, delays it."""


@dataclass(frozen=True)
class Check:
    """A thing that must be so. problem: what is wrong, "" = nothing. It is shown to anybody, and names no path."""

    name: str
    problem: str


def liveness(control: Control) -> list[Check]:
    """Returns what a supervisor restarts a server for: its control loop stands still."""
    return [Check("loop", "" if control.loop.is_running else "the control loop's thread has ended")]


def readiness(control: Control, folder: str) -> list[Check]:
    """Returns what keeps a server from taking jobs. folder: the one that it writes to."""
    return [
        *liveness(control),
        Check("lease", _lease(control)),
        Check("store", _problem(control.store.other_servers)),
        Check("disk", "" if os.access(folder, os.W_OK) else "the server's folder can't be written to"),
    ]


def _lease(control: Control) -> str:
    if not control.is_active:
        return "this server stands by; another one is active"
    age_s = control.loop.beat_age_s
    return f"the lease was last renewed {age_s:.0f} s ago" if age_s > MAX_BEAT_AGE_S else ""


def _problem(call: Callable[[], object]) -> str:
    try:
        call()
    except DrumbeatError:
        return "the database doesn't answer"
    return ""

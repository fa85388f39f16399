"""Errors of a gang's start that this machine causes: its disk, files, memory or processes are used up.

They are transient and not the gang's fault: its start is repeated, while a refusal would end the job for good.
"""

from __future__ import annotations

from pathlib import Path

from drumbeat.model.errors import DrumbeatError, EngineError, UnreachableError
from drumbeat.node.host.machine import TRANSIENT


def not_started(error: OSError, folder: Path, fix: str = "") -> DrumbeatError:
    """The error of a failed start: UnreachableError without a machine if it is transient, EngineError if a user must
    act.
    """
    what = f"the agents could not be started: {error}"
    if error.errno in TRANSIENT:
        return UnreachableError(what)
    return EngineError(what, where=str(error.filename or folder), fix=fix)

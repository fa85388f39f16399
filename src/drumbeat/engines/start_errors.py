"""The errors of a gang's start that this machine causes: its disk, files, memory or processes are used up.

They pass, and the gang isn't at fault: its start is tried again, while a refusal would end the job for good.
"""

from __future__ import annotations

from pathlib import Path

from drumbeat.model.errors import DrumbeatError, EngineError, UnreachableError
from drumbeat.node.host.machine import PASSING


def not_started(error: OSError, folder: Path, fix: str = "") -> DrumbeatError:
    """UnreachableError without a machine where it may pass, EngineError where a person has to act."""
    what = f"the agents could not be started: {error}"
    if error.errno in PASSING:
        return UnreachableError(what)
    return EngineError(what, where=str(error.filename or folder), fix=fix)

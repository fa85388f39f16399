"""The gangs that run although no job wants them: a start that was given up may be carried out after its stop."""

from __future__ import annotations

from collections.abc import Callable

from drumbeat.model.errors import StorageError

Wanted = Callable[[], set[str]]
"""Returns the gangs that jobs want: each from before its start until it has ended. Raises StorageError."""


def unwanted(gangs: set[str], wanted: Wanted | None) -> set[str]:
    """Those of `gangs` that no job wants; empty without an answer of the store. wanted: None = not set yet.

    `gangs` must be a list from before this call: what is started meanwhile isn't a leftover.
    """
    try:
        return gangs - wanted() if gangs and wanted else set()
    except StorageError:
        return set()

"""The gangs that run although no job wants them: a start that was given up may be carried out after its stop."""

from __future__ import annotations

from collections.abc import Callable

from drumbeat.model.errors import StorageError

Wanted = Callable[[], set[str]]
"""The gangs that jobs want: each from before its start until it has ended. Raises StorageError."""


def unwanted(known: set[str], wanted: Wanted | None) -> set[str]:
    """Those of the known gangs that no job wants any more; none while nobody can tell. wanted: None = not told yet.

    What is known must have been listed before this: what is started meanwhile is nobody's leftover.
    """
    try:
        return known - wanted() if known and wanted else set()
    except StorageError:
        return set()

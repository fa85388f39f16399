"""What the API says of checkpoints, from which other jobs continue, and of the code that they may run."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True)
class CheckpointView:
    """The last checkpoint of a job.

    step: null = it isn't known. saved_at: null = it isn't known. size: bytes of all that are kept, 0 = not known.
    is_certain: whether there is one; else only the nodes know. problem: why no job can continue from it; fix: what to
    do about that.
    """

    job: str
    step: int | None
    saved_at: datetime | None
    size: int
    is_certain: bool
    problem: str = ""
    fix: str = ""


@dataclass(frozen=True)
class ContinuedView:
    """The job that another one continues, and the step of the checkpoint; null = it isn't known."""

    job: str
    step: int | None


@dataclass(frozen=True)
class SnapshotView:
    """A snapshot of code, and the last job that ran it."""

    digest: str
    job: str
    submitted_at: datetime

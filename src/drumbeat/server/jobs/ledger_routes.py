"""The ledger: where the wall time of jobs went."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query
from pydantic import AwareDatetime

from drumbeat.model.api.ledger import LedgerGroup, LedgerView
from drumbeat.server.context import ControlOf
from drumbeat.server.routing import new_router

router = new_router("/api/v1", tags=["jobs"])

MAX_NAMES = 500
SINCE = "Jobs that ended before are left out; 30 days ago when absent. Ignored when jobs are named."
JOB = "Only this job; of a sweep or pipeline, its children. May be repeated."


@router.get("/ledger")
def show_ledger(
    *,
    control: ControlOf,
    by: Annotated[LedgerGroup, Query(description="What the rows are.")] = LedgerGroup.JOB,
    since: Annotated[AwareDatetime | None, Query(description=SINCE)] = None,
    job: Annotated[list[str], Query(max_length=MAX_NAMES, description=JOB)] = [],  # noqa: B006 - FastAPI copies it
) -> LedgerView:
    """Each second of the wall time of jobs in one class of time, summed by job, experiment, user or week."""
    return control.ledger.read(by, since, job)

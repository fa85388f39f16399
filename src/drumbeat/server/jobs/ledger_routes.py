"""The ledger and the history of use: where the wall time of jobs went, and what they held."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query
from pydantic import AwareDatetime

from drumbeat.model.api.ledger import LedgerGroup, LedgerView
from drumbeat.model.api.use import UseGroup, UseHistoryView, UseStep
from drumbeat.server.context import ControlOf
from drumbeat.server.routing import new_router

router = new_router("/api/v1", tags=["jobs"])

MAX_NAMES = 500
MAX_ROWS = 100_000
SINCE = "Time before is left out; 30 days ago when absent. Ignored when jobs are named."
UNTIL = "Time after is left out; now when absent. Ignored when jobs are named."
JOB = "Only this job; of a sweep or pipeline, its children. May be repeated."
LIMIT = "The most rows; all when absent. The total is that of all."


@router.get("/ledger")
def show_ledger(
    *,
    control: ControlOf,
    by: Annotated[LedgerGroup, Query(description="What the rows are.")] = LedgerGroup.JOB,
    since: Annotated[AwareDatetime | None, Query(description=SINCE)] = None,
    until: Annotated[AwareDatetime | None, Query(description=UNTIL)] = None,
    job: Annotated[list[str], Query(max_length=MAX_NAMES, description=JOB)] = [],  # noqa: B006 - FastAPI copies it
    limit: Annotated[int | None, Query(ge=1, le=MAX_ROWS, description=LIMIT)] = None,
) -> LedgerView:
    """Each second of the wall time of jobs in one class of time, with what they held, summed by what the rows are."""
    return control.ledger.read(by, since, job, until, limit)


@router.get("/use")
def show_use_over_time(
    *,
    control: ControlOf,
    by: Annotated[UseGroup, Query(description="What the series are.")] = UseGroup.USER,
    since: Annotated[AwareDatetime | None, Query(description="30 days ago when absent.")] = None,
    until: Annotated[AwareDatetime | None, Query(description="Now when absent.")] = None,
    step: Annotated[UseStep | None, Query(description="Chosen by the length when absent.")] = None,
    compute: Annotated[str, Query(max_length=100, description="Of this compute alone; of all when absent.")] = "",
) -> UseHistoryView:
    """What jobs held of computes over time, what was free, how many jobs waited, and which held the most unused."""
    return control.use_histories.read(by, since, until, step, compute)

"""Values as the server would send them, for the tests of the command line."""

import dataclasses
from dataclasses import MISSING, replace
from datetime import UTC, datetime, timedelta
from enum import EnumType
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from drumbeat.model.api.jobs import EventView, JobWithEvents, LogPiece, VerdictView

T = TypeVar("T")

NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)


def after(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


def sample(kind: type[T], *values: object, **fields: object) -> T:
    """A value of the API with these fields; the others that have no default are empty."""
    names = [one.name for one in dataclasses.fields(kind) if one.init]
    given = dict(zip(names, values, strict=False)) | fields
    hints = get_type_hints(kind)
    missing = {
        one.name: _empty(hints[one.name])
        for one in dataclasses.fields(kind)
        if one.default is MISSING and one.default_factory is MISSING and one.name not in given
    }
    return kind(**missing, **given)


def _empty(hint: Any) -> Any:
    if type(None) in get_args(hint):
        return None
    if get_origin(hint) is Literal:
        return get_args(hint)[0]
    if isinstance(hint, EnumType):
        return next(iter(hint))
    return (get_origin(hint) or hint)()


def a_job(**changes: object) -> JobWithEvents:
    """A running job of 2 nodes × 2 ranks."""
    job = sample(
        JobWithEvents,
        name="mnist-7f3a",
        state="running",
        reason="ranks_running",
        sentence="4 ranks run on 2 nodes",
        submitted_at=NOON,
        started_at=after(2),
        experiment="digits",
        attempt=1,
        round=1,
        world_size=4,
        node_count=2,
        processes_per_node=2,
        launcher="pytorch",
        compute="local",
        environment="current",
        command="python train.py --epochs 8",
    )
    return replace(job, **changes)


def a_failed_job() -> JobWithEvents:
    return a_job(
        state="failed",
        reason="rank_failed",
        ended_at=after(12.4),
        exit_code=7,
        sentence="rank 3 failed first",
        verdict=VerdictView(
            reason="rank_failed",
            sentence="rank 3 on node 1 stopped with exit code 7: ValueError: no data",
            rank=3,
            node=1,
            code=7,
            tail="Traceback (most recent call last):\n  …\nValueError: no data\x1b[2J\n",
            advice="Check inputs.data.",
        ),
    )


def event_line(n: int, state: str, sentence: str, at_s: float = 0.0) -> EventView:
    return EventView(n, after(at_s), state, "accepted", sentence, 1, 1)


def piece(text: str, rank: int = 0, *, position: int = 0, round_: int = 1) -> LogPiece:
    return LogPiece(position, 1, round_, max(rank, 0) // 2, rank, 0, text)

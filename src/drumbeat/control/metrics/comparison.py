"""Comparing jobs: what differs in what was submitted, and what came of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast

from drumbeat.core import ledger_times
from drumbeat.core.ledger_times import Save
from drumbeat.core.life.events import StoryEntry
from drumbeat.ports import Record
from drumbeat.ports.metrics import Series
from drumbeat.protocol.api.ledger import TimeClass
from drumbeat.protocol.api.metrics import ComparedRow, ComparisonView
from drumbeat.protocol.metrics import value_to_json

_MISSING = None
_NAMES = frozenset({"name", "display_name", "description", "tags", "properties"})
"""Keys of a job file that say nothing of what runs."""


@dataclass(frozen=True)
class Compared:
    """One job with all that a comparison reads."""

    record: Record
    story: Sequence[StoryEntry]
    metrics: Sequence[Series]
    """Series of rank 0."""
    saves: Sequence[Save] = ()
    """Its checkpoints."""


def compare(jobs: Sequence[Compared], now: datetime) -> ComparisonView:
    """Returns the comparison of jobs, in their order."""
    columns = [_submitted(one.record) for one in jobs]
    differences = [row for row in _rows(columns) if any(value != row.values[0] for value in row.values)]
    outcomes = _rows([_outcome(one, now) for one in jobs])
    return ComparisonView(tuple(one.record.job.name for one in jobs), tuple(differences), tuple(outcomes))


def _submitted(record: Record) -> dict[tuple[str, str], Any]:
    plan = record.job.plan
    facts: dict[tuple[str, str], Any] = {
        ("job file", key): value
        for key, value in _flat({key: value for key, value in record.spec.items() if key not in _NAMES})
        if not key.startswith(("inputs.", "code", "environment"))
    }
    facts["code", "digest"] = plan.code
    facts["environment", "name"] = plan.environment
    if plan.python is not None:
        facts["environment", "content"] = plan.python.key
    if plan.container is not None:
        facts["environment", "image"] = plan.container.image
    facts |= {("inputs", name): value for name, value in plan.literals.items()}
    facts |= {("inputs", one.name): one.uri for one in plan.inputs}
    return facts


def _outcome(one: Compared, now: datetime) -> dict[tuple[str, str], Any]:
    job = one.record.job
    end = job.ended_at or now
    facts: dict[tuple[str, str], Any] = {("outcome", "state"): job.state.value, ("outcome", "reason"): job.reason.value}
    facts["outcome", "waited_s"] = round(((job.started_at or end) - job.submitted_at).total_seconds(), 3)
    if job.started_at is not None:
        facts["outcome", "duration_s"] = round((end - job.started_at).total_seconds(), 3)
    facts["outcome", "attempts"] = job.attempt
    facts["outcome", "failures"] = len(job.failures)
    times = ledger_times.by_class(ledger_times.stretches(one.story, end, one.saves))
    facts["outcome", "lost_s"] = round(times[TimeClass.LOST].total_seconds(), 3)
    return facts | {("metrics", series.name): value_to_json(series.last.value) for series in one.metrics}


def _flat(value: Any, at: str = "") -> Iterable[tuple[str, Any]]:
    """Yields the scalars within a document, each with its dotted path."""
    if isinstance(value, Mapping):
        for key, inner in cast("Mapping[str, Any]", value).items():
            yield from _flat(inner, f"{at}.{key}" if at else str(key))
    else:
        yield at, value


def _rows(columns: Sequence[Mapping[tuple[str, str], Any]]) -> list[ComparedRow]:
    keys = list(dict.fromkeys(key for column in columns for key in column))
    sections = list(dict.fromkeys(section for section, _ in keys))
    keys.sort(key=lambda key: sections.index(key[0]))
    return [
        ComparedRow(section, key, tuple(column.get((section, key), _MISSING) for column in columns))
        for section, key in keys
    ]

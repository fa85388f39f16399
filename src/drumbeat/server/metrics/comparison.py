"""Compares jobs: differences in their submissions, and their outcomes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, cast

from drumbeat.core import ledger_times
from drumbeat.core.ledger_times import Save
from drumbeat.core.lifecycle.events import JobEvent
from drumbeat.model.api.ledger import TimeClass
from drumbeat.model.api.metrics import ComparedRow, ComparisonView
from drumbeat.model.metrics import Point, PrimarySeries, Series, value_to_json
from drumbeat.server.database.records import Record
from drumbeat.server.metrics.code_files import CodeFile, describe_difference

_MISSING = None
MAX_FILES = 50
"""Maximum number of listed files of the code."""
_NAMES = frozenset({"name", "display_name", "description", "tags", "properties"})
"""Keys of a job file that don't affect what runs."""


@dataclass(frozen=True)
class Compared:
    """A job with everything that a comparison reads."""

    record: Record
    events: Sequence[JobEvent]
    metrics: Sequence[Series]
    """Series of rank 0."""
    saves: Sequence[Save] = ()
    """Its checkpoints."""
    parameters: Mapping[str, str] = field(default_factory=dict[str, str])
    """The parameters that its script logged."""
    contents: Mapping[str, str] = field(default_factory=dict[str, str])
    """The fingerprint of each input whose URI doesn't identify its content, by name."""
    curves: Mapping[str, Sequence[Point]] = field(default_factory=dict[str, Sequence[Point]])
    """Points of the metrics whose last steps differ between the jobs."""
    files: Mapping[str, CodeFile] = field(default_factory=dict[str, CodeFile])
    """The files of its code, by path; empty if the code has been pruned."""
    primary: PrimarySeries | None = None
    """The metric that counts."""


def compare(jobs: Sequence[Compared], now: datetime) -> ComparisonView:
    """Returns the comparison of jobs, in their order."""
    columns = [{**_submitted(one), **code} for one, code in zip(jobs, _code(jobs), strict=True)]
    differences = [row for row in _rows(columns) if any(value != row.values[0] for value in row.values)]
    outcomes = _rows([{**_outcome(one, now), **values} for one, values in zip(jobs, _at_one_step(jobs), strict=True)])
    counting = {one.primary.series.name: one.primary.goal for one in jobs if one.primary}
    if len(counting) == 1:  # Otherwise no metric counts for all of them.
        outcomes = [replace(row, goal=counting.get(row.key)) if row.section == "metrics" else row for row in outcomes]
    return ComparisonView(tuple(one.record.job.name for one in jobs), tuple(differences), tuple(outcomes))


def _code(jobs: Sequence[Compared]) -> list[dict[tuple[str, str], Any]]:
    """Returns for each job how the files of its code differ from the first job's."""
    first = jobs[0].files
    if not all(one.files for one in jobs):
        return [{} for _ in jobs]
    paths = sorted({path for one in jobs for path, file in one.files.items() if first.get(path) != file})
    paths += sorted(path for path in first if path not in paths and any(path not in one.files for one in jobs))
    shown = paths[:MAX_FILES]
    facts: list[dict[tuple[str, str], Any]] = [
        {("code", path): describe_difference(first.get(path), one.files.get(path)) for path in shown} for one in jobs
    ]
    facts[0] |= {("code", path): "as it is here" if path in first else _MISSING for path in shown}
    if len(paths) > len(shown):
        facts[0]["code", "more"] = f"{len(paths) - len(shown):,} more files differ"
    return facts


def _submitted(one: Compared) -> dict[tuple[str, str], Any]:
    record, plan = one.record, one.record.job.plan
    facts: dict[tuple[str, str], Any] = {
        ("job file", key): value
        for key, value in _flat({key: value for key, value in record.spec.items() if key not in _NAMES})
        if key.partition(".")[0] not in ("inputs", "code", "environment")
    }
    facts["code", "digest"] = plan.code
    facts["environment", "name"] = plan.environment
    if plan.python is not None:
        facts["environment", "content"] = plan.python.key
    if plan.container is not None:
        facts["environment", "image"] = plan.container.image
    facts |= {("inputs", name): value for name, value in plan.literals.items()}
    facts |= {("inputs", planned.name): planned.uri for planned in plan.inputs}
    facts |= {("inputs", f"{name}: content"): content for name, content in one.contents.items()}
    return facts | {("parameters", name): value for name, value in one.parameters.items()}


def uneven(jobs: Sequence[Sequence[Series]]) -> list[str]:
    """Returns the metrics of all jobs whose last steps differ, so that their last values aren't comparable."""
    last = [{one.name: one.last.step for one in series} for series in jobs]
    return [name for name in last[0] if all(name in one for one in last) and len({one[name] for one in last}) > 1]


def _at_one_step(jobs: Sequence[Compared]) -> list[dict[tuple[str, str], Any]]:
    """Returns for each job the values of such metrics at the last step that all jobs reached."""
    facts: list[dict[tuple[str, str], Any]] = [{} for _ in jobs]
    for name in jobs[0].curves:
        step = min(max((point.step for point in one.curves[name]), default=0) for one in jobs)
        for one, row in zip(jobs, facts, strict=True):
            before = [point for point in one.curves[name] if point.step <= step]
            if before:
                value = max(before, key=lambda point: point.step).value
                row["metrics", f"{name} at step {step:,}"] = value_to_json(value)
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
    times = ledger_times.by_class(ledger_times.stretches(one.events, end, one.saves))
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

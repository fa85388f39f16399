"""The trace of an ended job: its attempts, their rounds, and the classes of time in these. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from drumbeat.core import ledger_times
from drumbeat.core.ledger_times import Stretch
from drumbeat.core.lifecycle.events import JobEvent
from drumbeat.core.lifecycle.job import Job
from drumbeat.model.states import State

Attributes = dict[str, str | int | float | bool]


@dataclass(frozen=True)
class SpanDraft:
    """A span of a job's trace. key: its position in the trace; "" = the job itself."""

    key: str
    parent: str
    name: str
    start: datetime
    end: datetime
    attributes: Attributes = field(default_factory=Attributes)
    error: str = ""
    """The error, "" = none."""


@dataclass(frozen=True)
class TraceOrigin:
    """The source of the ids of a trace, so that a trace that is sent twice has the same ids."""

    job: str
    submitted_at: datetime

    @property
    def trace_id(self) -> int:
        """Returns the trace's id of 128 bits, which children share with their parent."""
        return self._number("trace", 16)

    def span_id(self, key: str) -> int:
        """Returns a span's id of 64 bits."""
        return self._number(f"span {key}", 8)

    def _number(self, purpose: str, size: int) -> int:
        text = f"{purpose} {self.job} {self.submitted_at.isoformat()}"
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:size], "big") or 1


def job_spans(job: Job, events: Sequence[JobEvent], now: datetime) -> list[SpanDraft]:
    """Returns the spans of a job: the job, its attempts, their rounds, and one for each class of time in these."""
    parts = _merged(ledger_times.stretches(events, now))
    if not parts:
        return []
    error = job.sentence if job.state is State.FAILED else ""
    spans = [SpanDraft("", "", f"job {job.name}", parts[0].start, parts[-1].end, job_attributes(job), error)]
    failures = {(one.attempt, one.round): one.verdict.sentence for one in job.failures}
    for attempt in sorted({part.attempt for part in parts} - {0}):
        own = [part for part in parts if part.attempt == attempt]
        errors = [sentence for (number, _), sentence in failures.items() if number == attempt]
        spans.append(_group(f"attempt {attempt}", "", own, "; ".join(errors[-1:])))
        for number in sorted({part.round for part in own}):
            some = [part for part in own if part.round == number]
            error = failures.get((attempt, number), "")
            spans.append(_group(f"attempt {attempt} round {number}", f"attempt {attempt}", some, error))
    spans += [_leaf(number, part) for number, part in enumerate(parts)]
    return spans


def job_attributes(job: Job) -> Attributes:
    """Returns the attributes of a job's spans and log records."""
    return {
        "drumbeat.job": job.name,
        "drumbeat.experiment": job.plan.experiment,
        "drumbeat.compute": job.plan.compute,
        "drumbeat.state": job.state.value,
        "drumbeat.reason": job.reason.value,
        "drumbeat.kind": job.kind.value,
        "drumbeat.nodes": job.plan.nodes,
        "drumbeat.ranks": job.plan.world_size,
    }


def _merged(parts: Sequence[Stretch]) -> list[Stretch]:
    """Joins adjacent stretches of the same class in the same round."""
    merged: list[Stretch] = []
    for part in parts:
        last = merged[-1] if merged else None
        if last and (last.time_class, last.attempt, last.round) == (part.time_class, part.attempt, part.round):
            merged[-1] = Stretch(last.start, part.end, part.time_class, part.attempt, part.round)
        else:
            merged.append(part)
    return merged


def _group(key: str, parent: str, parts: Sequence[Stretch], error: str) -> SpanDraft:
    name = f"round {parts[0].round}" if "round" in key else key
    attributes: Attributes = {"drumbeat.attempt": parts[0].attempt}
    if "round" in key:
        attributes["drumbeat.round"] = parts[0].round
    return SpanDraft(key, parent, name, parts[0].start, parts[-1].end, attributes, error)


def _leaf(number: int, part: Stretch) -> SpanDraft:
    parent = f"attempt {part.attempt} round {part.round}" if part.attempt else ""
    attributes: Attributes = {"drumbeat.class": part.time_class.value}
    return SpanDraft(f"part {number}", parent, part.time_class.value, part.start, part.end, attributes)

"""The tables of jobs and their events."""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, Select, bindparam, delete, func, insert, select, update

from drumbeat.core.lifecycle.events import JobEvent
from drumbeat.core.lifecycle.job import Job
from drumbeat.model import wire
from drumbeat.model.api.requests import JobRequest
from drumbeat.model.errors import ConflictError, NotFoundError, StaleError
from drumbeat.model.states import Reason, State
from drumbeat.server.database.records import Change, ExperimentUse, Record, Submission
from drumbeat.server.database.schema import job_events, jobs, removals, submissions
from drumbeat.server.jobs import part_tables
from drumbeat.server.loop.lease_tables import UNFINISHED
from drumbeat.server.resources.tables import note_uses

if TYPE_CHECKING:
    from drumbeat.server.jobs.job_filter import JobFilter

_SOME = 500
"""Names in one statement, as databases limit the number of its values."""

# Statements that run for each event are built once, because building one takes longer than SQLite takes to run it.
_REWRITE = update(jobs).where(jobs.c.name == bindparam("its_name"), jobs.c.version == bindparam("its_version"))
"""Sets the columns that are passed with it."""

_HEADS = select(jobs.c.name, jobs.c.version, jobs.c.archived)
"""The columns that tell whether a cached record is still current."""


_HEAD = _HEADS.where(jobs.c.name == bindparam("its_name"))
_HEAD_BY_KEY = _HEADS.join(submissions, submissions.c.job == jobs.c.name).where(submissions.c.key == bindparam("key"))
_UNFINISHED = _HEADS.where(jobs.c.state.in_(UNFINISHED)).order_by(jobs.c.number)
_WHOLE = (
    select(jobs.c.version, jobs.c.document, submissions.c.spec)
    .join(submissions, submissions.c.job == jobs.c.name)
    .where(jobs.c.name.in_(bindparam("names", expanding=True)))
)
_NUMBER = select(jobs.c.number).where(jobs.c.name == bindparam("its_name"))
_REMOVAL = select(removals).where(removals.c.name == bindparam("its_name")).with_for_update()
_REQUEST = select(submissions.c.request, submissions.c.spec).where(submissions.c.job == bindparam("its_name"))
_EVENTS = select(job_events).where(job_events.c.job == bindparam("its_name")).order_by(job_events.c.id)
_ADD, _ADD_SUBMISSION, _ADD_EVENTS = insert(jobs), insert(submissions), insert(job_events)


class Remembered:
    """Caches records, so that a job is parsed once per version and not once per read.

    As many as `size` are kept, and no more than have `nodes` together; the last one is kept whatever its size.
    """

    def __init__(self, size: int = 512, nodes: int = 20_000) -> None:
        self._size, self._max_nodes = size, nodes
        self._records: OrderedDict[str, Record] = OrderedDict()
        self._nodes = 0
        self._lock = threading.Lock()

    def get(self, name: str, version: int) -> Record | None:
        """Returns the record if it is cached at that version."""
        with self._lock:
            record = self._records.get(name)
            if record is None or record.version != version:
                return None
            self._records.move_to_end(name)
            return record

    def put(self, records: Iterable[Record]) -> None:
        """Adds records, and drops the least recently used ones."""
        with self._lock:
            for record in records:
                before = self._records.pop(record.job.name, None)
                self._records[record.job.name] = record
                self._nodes += record.job.plan.nodes - (before.job.plan.nodes if before else 0)
            while len(self._records) > self._size or (self._nodes > self._max_nodes and len(self._records) > 1):
                _, forgotten = self._records.popitem(last=False)
                self._nodes -= forgotten.job.plan.nodes


# --- reading ----------------------------------------------------------------------------------------------------
def load(connection: Connection, name: str, remembered: Remembered) -> Record:
    """Returns one job. Raises NotFoundError."""
    records = _records(connection, _HEAD, remembered, {"its_name": name})
    if not records:
        raise no_job(name)
    return records[0]


def by_key(connection: Connection, key: str, remembered: Remembered) -> Record | None:
    """Returns the job that was submitted with this key."""
    return next(iter(_records(connection, _HEAD_BY_KEY, remembered, {"key": key})), None)


def request(connection: Connection, name: str) -> JobRequest:
    """Returns the request of a job that has it whole. Raises NotFoundError."""
    row = connection.execute(_REQUEST, {"its_name": name}).first()
    if row is None or not row.request:
        raise no_job(name)
    asked = wire.loads(JobRequest, row.request)
    return asked if asked.document else replace(asked, document=json.loads(row.spec))


def unfinished(connection: Connection, remembered: Remembered) -> list[Record]:
    """Returns every job that hasn't ended, oldest first."""
    return _records(connection, _UNFINISHED, remembered)


def page(connection: Connection, chosen: JobFilter, remembered: Remembered) -> list[Record]:
    """Returns a page of a list, newest first."""
    heads = _page(chosen)
    if chosen.after is not None:
        number = connection.scalar(_NUMBER, {"its_name": chosen.after})
        if number is None:
            raise no_job(chosen.after)
        heads = heads.where(jobs.c.number < number)
    return _records(connection, heads, remembered)


def heads(connection: Connection, chosen: JobFilter) -> list[tuple[str, int, bool]]:
    """Returns name, version and whether it is archived of every job that a filter chooses, newest first.

    The text and the page of the filter are ignored.
    """
    conditions = replace(chosen, text="").conditions()
    rows = connection.execute(_HEADS.where(*conditions).order_by(jobs.c.number.desc()))
    return [(row.name, row.version, row.archived) for row in rows]


def named(connection: Connection, names: Sequence[str]) -> list[Record]:
    """Returns the jobs with these names that exist, not marked as archived. They aren't cached."""
    return list(_parsed(connection, names).values())


@lru_cache(256)  # The children of jobs are listed often.
def _page(chosen: JobFilter) -> Select[*tuple[Any, ...]]:
    return _HEADS.where(*chosen.conditions()).order_by(jobs.c.number.desc()).limit(chosen.limit)


def count(connection: Connection, chosen: JobFilter) -> dict[State, int]:
    """How many jobs are in each state, of all that a filter chooses but for its text and its page."""
    conditions = replace(chosen, text="").conditions()
    counted = select(jobs.c.state, func.count()).where(*conditions).group_by(jobs.c.state)
    return {State(state): number for state, number in connection.execute(counted)}


def experiments(connection: Connection) -> list[ExperimentUse]:
    """The names of experiments that jobs have, by name."""
    at = jobs.c.submitted_at
    chosen = select(jobs.c.experiment, func.count(), func.min(at), func.max(at)).group_by(jobs.c.experiment)
    uses = [ExperimentUse(name, count, first, latest) for name, count, first, latest in connection.execute(chosen)]
    return sorted(uses, key=lambda one: one.name)


def _records(
    connection: Connection,
    heads: Select[*tuple[Any, ...]],
    remembered: Remembered,
    values: dict[str, Any] | None = None,
) -> list[Record]:
    """Returns the records of those rows, in their order. Only jobs that aren't cached are read completely."""
    rows = connection.execute(heads, values).all()
    looked_up = {str(row.name): remembered.get(row.name, row.version) for row in rows}
    records = {name: record for name, record in looked_up.items() if record is not None}
    fresh = _parsed(connection, [name for name in looked_up if name not in records])
    remembered.put(fresh.values())
    records.update(fresh)
    return [_shown(records[row.name], is_archived=row.archived) for row in rows]


def _shown(record: Record, *, is_archived: bool) -> Record:
    return record if record.archived == is_archived else replace(record, archived=is_archived)


def _parsed(connection: Connection, names: Sequence[str]) -> dict[str, Record]:
    records: dict[str, Record] = {}
    for start in range(0, len(names), _SOME):
        rows = connection.execute(_WHOLE, {"names": names[start : start + _SOME]}).all()
        read = part_tables.read(connection, [row.document for row in rows])
        for row, (job, is_apart) in zip(rows, read, strict=True):
            records[job.name] = Record(job, row.version, json.loads(row.spec), is_apart=is_apart)
    return records


def read_events(connection: Connection, name: str) -> list[JobEvent]:
    """Returns a job's events, oldest first. Raises NotFoundError."""
    rows = connection.execute(_EVENTS, {"its_name": name}).all()
    if not rows and connection.scalar(_NUMBER, {"its_name": name}) is None:
        raise no_job(name)
    return [
        JobEvent(row.at, State(row.state), Reason(row.reason), row.sentence, row.attempt, row.round, row.since)
        for row in rows
    ]


# --- writing ----------------------------------------------------------------------------------------------------
def add(connection: Connection, new: Submission) -> Record:
    """Writes a new job, its request, and its events. Raises ConflictError if its name is taken."""
    name = new.job.name
    if connection.scalar(_NUMBER, {"its_name": name}) is not None:
        raise ConflictError(f"job {name} exists already", fix="Give this one another name.")
    version = _free_name(connection, name)
    job = replace(new.job, first_version=version)
    fixed = {"name": job.name, "submitted_at": job.submitted_at, "version": version, "archived": False}
    spec = json.dumps(new.spec, separators=(",", ":"))
    connection.execute(_ADD, fixed | _columns(job))
    part_tables.add(connection, job)
    request = wire.dumps(new.request) if new.request else ""
    connection.execute(_ADD_SUBMISSION, {"key": new.key, "job": job.name, "spec": spec, "request": request})
    add_events(connection, [(job.name, entry) for entry in new.events])
    note_uses(connection, job.name, new.uses)
    return Record(job, version, json.loads(spec), is_apart=part_tables.is_apart(job))


def _free_name(connection: Connection, name: str) -> int:
    """Returns the first version of a new job, after those of a deleted job of its name. Raises ConflictError."""
    deleted = connection.execute(_REMOVAL, {"its_name": name}).first()
    if deleted is None:
        return 1
    if not deleted.done:
        what = f"the files of the deleted job {name} are still being removed"
        raise ConflictError(what, fix="Try again in a moment, or give it another name.")
    connection.execute(delete(removals).where(removals.c.name == name))
    return int(deleted.version) + 1


def rewrite(connection: Connection, change: Change, remembered: Remembered) -> None:
    """Replaces the version of a job from which the change was made. Raises StaleError, NotFoundError."""
    guard = {"its_name": change.job.name, "its_version": change.version}
    columns = {"version": change.version + 1, **_columns(change.job)}
    if connection.execute(_REWRITE, guard | columns).rowcount != 1:
        raise _why_stale(connection, change)
    part_tables.rewrite(connection, remembered.get(change.job.name, change.version), change.job)


def add_events(connection: Connection, lines: Sequence[tuple[str, JobEvent]]) -> None:
    """Adds events of jobs."""
    if lines:
        connection.execute(_ADD_EVENTS, [_event_row(name, entry) for name, entry in lines])


def archive(connection: Connection, name: str, *, is_archived: bool) -> None:
    """Archives a job, or restores it. Raises NotFoundError, ConflictError."""
    row = connection.execute(select(jobs.c.state).where(jobs.c.name == name).with_for_update()).first()
    if row is None:
        raise no_job(name)
    if row.state in UNFINISHED:
        raise ConflictError(f"job {name} is {row.state}", fix="Cancel it or wait for its end.")
    changed = update(jobs).where(jobs.c.name == name, jobs.c.archived != is_archived)
    connection.execute(changed.values(archived=is_archived, version=jobs.c.version + 1))


def _columns(job: Job) -> dict[str, object]:
    return {
        "state": job.state.value,
        "reason": job.reason.value,
        "priority": job.policy.priority,
        "experiment": job.plan.experiment,
        "display_name": job.display_name,
        "parent": job.parent,
        "person": job.user,
        "document": part_tables.document(job),
    }


def _event_row(job: str, entry: JobEvent) -> dict[str, object]:
    return {
        "job": job,
        "at": entry.at,
        "state": entry.state.value,
        "reason": entry.reason.value,
        "sentence": entry.sentence,
        "attempt": entry.attempt,
        "round": entry.round,
        "since": entry.since,
    }


def _why_stale(connection: Connection, change: Change) -> StaleError | NotFoundError:
    name = change.job.name
    version = connection.scalar(select(jobs.c.version).where(jobs.c.name == name))
    if version is None:
        return no_job(name)
    return StaleError(f"job {name} has changed from version {change.version} to {version}")


def no_job(name: str) -> NotFoundError:
    """Returns the error for a name that no job has."""
    return NotFoundError(f"there is no job {name}", fix="List the jobs: drumbeat list")

"""Writes records: runs, their parameters, tags, inputs, outputs and points."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from functools import singledispatchmethod
from typing import Any, cast

from sqlalchemy import Connection, delete, insert, select, update

from drumbeat.model.errors import ConflictError
from drumbeat.model.metric_lines import Spooled
from drumbeat.model.metrics import (
    InputsLogged,
    JsonObject,
    MetricRecord,
    OutputsLogged,
    ParamsLogged,
    Point,
    PointsLogged,
    RunCreated,
    RunDeleted,
    RunRestored,
    RunUpdated,
    Source,
    TagDeleted,
    TagsSet,
    run_id,
)
from drumbeat.server.metrics.metric_records import RefusedParam, Taken
from drumbeat.server.metrics.tables.append_points import SeriesKey, append
from drumbeat.server.metrics.tables.experiments import canonical_id
from drumbeat.server.metrics.tables.schema import links, params, runs, sources, tags


def take(connection: Connection, source: Source, offset: int, records: Sequence[Spooled]) -> Taken:
    """Writes the new records of a spool, and its offset."""
    before = taken(connection, source)
    if offset > before:
        return Taken(before)
    fresh = [one for one in records if one.end > before]
    if not fresh:
        return Taken(before)
    refused = write(connection, [one.record for one in fresh])
    _keep_offset(connection, source, fresh[-1].end, is_first=before == 0)
    return Taken(fresh[-1].end, tuple(refused))


def taken(connection: Connection, source: Source) -> int:
    """Returns the offset of a source."""
    return connection.execute(select(sources.c.taken).where(*_is(source))).scalar_one_or_none() or 0


def write(
    connection: Connection, records: Iterable[MetricRecord], *, is_repeatable: bool = False
) -> list[RefusedParam]:
    """Writes records. Returns the parameters that have another value already.

    is_repeatable: the sender may have sent the points before.
    """
    writer = _RecordWriter(connection)
    for record in records:
        writer.write(record)
    for key, points in writer.points.items():
        append(connection, key, points, is_repeatable=is_repeatable)
    return writer.refused


def conflict(refused: RefusedParam) -> ConflictError:
    """Returns the error for a parameter that has another value already."""
    what = f"parameter {refused.key!r} is {refused.kept[:80]!r} already and can't become {refused.refused[:80]!r}"
    return ConflictError(what, where=f"run {refused.run}", fix="Log it under another name, or in another run.")


def _keep_offset(connection: Connection, source: Source, offset: int, *, is_first: bool) -> None:
    if is_first:
        connection.execute(insert(sources).values(**source._asdict(), taken=offset))
    else:
        connection.execute(update(sources).where(*_is(source)).values(taken=offset))


def _is(source: Source) -> tuple[Any, ...]:
    return sources.c.job == source.job, sources.c.attempt == source.attempt, sources.c.node == source.node


class _RecordWriter:
    """Writes each kind of record. points: collected by series, so that each series is written once."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.points: dict[SeriesKey, list[Point]] = {}
        self.refused: list[RefusedParam] = []

    @singledispatchmethod
    def write(self, record: MetricRecord) -> None:
        """Writes one record."""
        raise TypeError(type(record).__name__)

    @write.register
    def _points(self, record: PointsLogged) -> None:
        for point in record.points:
            self.points.setdefault((record.run, record.rank, point.name), []).append(point)

    @write.register
    def _created(self, record: RunCreated) -> None:
        if self._connection.execute(select(runs.c.id).where(runs.c.id == record.run)).one_or_none() is not None:
            return
        is_of_job = record.job != "" and record.run == run_id(record.job)
        # An ended job may still send runs that its ranks created.
        end = None if is_of_job or not record.job else self._settled(record.job)
        status, end_ms = end or ("RUNNING", None)
        row = {
            "id": record.run,
            "experiment": canonical_id(self._connection, record.experiment),
            "name": record.name,
            "status": status,
            "start_ms": record.start_ms,
            "end_ms": end_ms,
            "user": record.user,
            "job": record.job,
            "is_open": is_of_job,
            "is_settled": False,
        }
        self._connection.execute(insert(runs).values(row))
        if record.tags:
            self._tags(TagsSet(record.run, record.tags))

    @write.register
    def _updated(self, record: RunUpdated) -> None:
        this = runs.c.id == record.run
        if record.name:
            self._connection.execute(update(runs).where(this).values(name=record.name))
        values: dict[str, Any] = {"status": record.status} if record.status else {}
        if record.end_ms is not None:
            values["end_ms"] = record.end_ms
        elif record.status in {"RUNNING", "SCHEDULED"}:
            values["end_ms"] = None
        if values:
            self._connection.execute(update(runs).where(this, runs.c.is_settled.is_(False)).values(values))

    @write.register
    def _deleted(self, record: RunDeleted) -> None:
        self._connection.execute(update(runs).where(runs.c.id == record.run).values(deleted_ms=record.at_ms))

    @write.register
    def _restored(self, record: RunRestored) -> None:
        self._connection.execute(update(runs).where(runs.c.id == record.run).values(deleted_ms=None))

    @write.register
    def _params(self, record: ParamsLogged) -> None:
        chosen = select(params.c.key, params.c.value).where(params.c.run == record.run)
        kept = {row.key: row.value for row in self._connection.execute(chosen.where(params.c.key.in_(record.params)))}
        fresh = {key: value for key, value in record.params.items() if key not in kept}
        if fresh:
            rows = [{"run": record.run, "key": key, "value": value} for key, value in fresh.items()]
            self._connection.execute(insert(params), rows)
        self.refused += [
            RefusedParam(record.run, key, kept[key], value)
            for key, value in record.params.items()
            if kept.get(key, value) != value
        ]

    @write.register
    def _tags(self, record: TagsSet) -> None:
        if not record.tags:
            return
        self._connection.execute(delete(tags).where(tags.c.run == record.run, tags.c.key.in_(record.tags)))
        rows = [{"run": record.run, "key": key, "value": value} for key, value in record.tags.items()]
        self._connection.execute(insert(tags), rows)

    @write.register
    def _tag_deleted(self, record: TagDeleted) -> None:
        self._connection.execute(delete(tags).where(tags.c.run == record.run, tags.c.key == record.key))

    @write.register
    def _inputs(self, record: InputsLogged) -> None:
        self._link(record.run, "dataset", record.datasets)
        self._link(record.run, "model_input", record.models)

    @write.register
    def _outputs(self, record: OutputsLogged) -> None:
        self._link(record.run, "model_output", record.models)

    def _link(self, run: str, kind: str, bodies: Sequence[JsonObject]) -> None:
        rows = {row["digest"]: row for row in (_link_row(run, kind, body) for body in bodies)}
        chosen = select(links.c.digest).where(links.c.run == run, links.c.kind == kind, links.c.digest.in_(rows))
        existing = set(self._connection.execute(chosen).scalars())
        fresh = [row for digest, row in rows.items() if digest not in existing]
        if fresh:
            self._connection.execute(insert(links), fresh)

    def _settled(self, job: str) -> tuple[str, int | None] | None:
        """Returns status and end of a job's run if it is settled."""
        chosen = select(runs.c.status, runs.c.end_ms).where(runs.c.id == run_id(job), runs.c.is_settled.is_(True))
        row = self._connection.execute(chosen).one_or_none()
        return None if row is None else (row.status, row.end_ms)


def _link_row(run: str, kind: str, body: JsonObject) -> dict[str, str]:
    text = json.dumps(body, sort_keys=True, separators=(",", ":"))
    name, digest, context = dataset_facts(body) if kind == "dataset" else ("", "", "")
    return {
        "run": run,
        "kind": kind,
        "digest": hashlib.sha256(text.encode()).hexdigest(),
        "dataset_name": name,
        "dataset_digest": digest,
        "context": context,
        "body": json.dumps(body),
    }


def dataset_facts(body: JsonObject) -> tuple[str, str, str]:
    """Returns name, digest and context of a `DatasetInput`, for searches of runs."""
    dataset = cast(JsonObject, body.get("dataset") or {})
    listed = cast("list[JsonObject]", body.get("tags") or [])
    tagged = {str(tag.get("key")): str(tag.get("value")) for tag in listed}
    return str(dataset.get("name", "")), str(dataset.get("digest", "")), tagged.get("mlflow.data.context", "")

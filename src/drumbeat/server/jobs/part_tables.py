"""Parts of large jobs in rows of their own: what an agent says is written without what the others said.

The document of a job has everything but the ranks of its plan, its slots, its roster and the statuses of its nodes, and
says of how many nodes. A job of up to `MAX_WHOLE_NODES` nodes is one document, as all jobs of earlier versions are:
one row is written and read sooner than several. Parts that stay as they are aren't written again.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection, bindparam, delete, insert, select, update

from drumbeat.core.lifecycle.job import Job
from drumbeat.model import wire
from drumbeat.server.database.records import Record
from drumbeat.server.database.schema import job_parts

MAX_WHOLE_NODES = 32
"""The size of a gang up to which its job is one document."""

_APART = "apart"
"""The key of a document whose parts are in rows; unknown to `Job`. Its value has the number of nodes."""
_RANKS, _SLOTS, _ROSTER, _NODE = "ranks", "slots", "roster", "node"
_SOME = 500
"""Names in one statement; databases limit its values."""

_WHICH = job_parts.c.job == bindparam("its_job"), job_parts.c.part == bindparam("its_part")
_ONE = *_WHICH, job_parts.c.number == bindparam("its_number")
_ADD, _REWRITE, _DROP = insert(job_parts), update(job_parts).where(*_ONE), delete(job_parts).where(*_ONE)
_DROP_PART = delete(job_parts).where(*_WHICH)
_DROP_ALL = delete(job_parts).where(job_parts.c.job == bindparam("its_job"))
_READ = select(job_parts).where(job_parts.c.job.in_(bindparam("names", expanding=True)))


def is_apart(job: Job) -> bool:
    """Whether parts of a job are written to rows of their own."""
    return job.plan.nodes > MAX_WHOLE_NODES


# --- writing ----------------------------------------------------------------------------------------------------
def document(job: Job) -> str:
    """Returns the document of a job's own row."""
    if not is_apart(job):
        return wire.dumps(job)
    left = replace(job, plan=replace(job.plan, ranks=()), slots=(), roster=None, nodes=())
    written = {**wire.to_wire(left), _APART: {"nodes": len(job.nodes)}}
    return json.dumps(written, separators=(",", ":"))


def rewrite(connection: Connection, before: Record | None, after: Job) -> None:
    """Writes what has changed of a job's parts. before: what the rows are of, None = not known."""
    if before is None or before.is_apart != is_apart(after):
        connection.execute(_DROP_ALL, {"its_job": after.name})
        add(connection, after)
    elif before.is_apart:
        _rewrite_parts(connection, before.job, after)
        _rewrite_nodes(connection, before.job, after)


def add(connection: Connection, job: Job) -> None:
    """Writes the parts of a job that has no rows yet."""
    if not is_apart(job):
        return
    rows = [(part, 0, value) for part, value in _parts(job).items() if value]
    rows += [(_NODE, node, status) for node, status in enumerate(job.nodes) if status]
    _execute(connection, _ADD, [_row(job.name, *row) for row in rows])


def _parts(job: Job) -> dict[str, object]:
    """Those that are one row each; what is empty has none."""
    return {_RANKS: job.plan.ranks, _SLOTS: job.slots, _ROSTER: job.roster}


def _rewrite_parts(connection: Connection, before: Job, after: Job) -> None:
    old = _parts(before)
    for part, value in _parts(after).items():
        if value is old[part]:
            continue
        if old[part]:
            connection.execute(_DROP, _key(after.name, part, 0))
        if value:
            connection.execute(_ADD, _row(after.name, part, 0, value))


def _rewrite_nodes(connection: Connection, before: Job, after: Job) -> None:
    old = before.nodes
    if len(old) != len(after.nodes) or any(one and not now for one, now in zip(old, after.nodes, strict=True)):
        connection.execute(_DROP_PART, {"its_job": after.name, "its_part": _NODE})
        old = (None,) * len(after.nodes)
    changed = [(node, one) for node, one in enumerate(after.nodes) if one is not old[node] and one]
    name = after.name
    _execute(connection, _ADD, [_row(name, _NODE, node, one) for node, one in changed if not old[node]])
    written = [{**_key(name, _NODE, node), "document": wire.dumps(one)} for node, one in changed if old[node]]
    _execute(connection, _REWRITE, written)


def _execute(connection: Connection, statement: Any, rows: Sequence[dict[str, object]]) -> None:
    if rows:
        connection.execute(statement, rows)


def _key(job: str, part: str, number: int) -> dict[str, object]:
    return {"its_job": job, "its_part": part, "its_number": number}


def _row(job: str, part: str, number: int, value: object) -> dict[str, object]:
    return {"job": job, "part": part, "number": number, "document": wire.dumps(value)}


# --- reading ----------------------------------------------------------------------------------------------------
def read(connection: Connection, documents: Iterable[str]) -> list[tuple[Job, bool]]:
    """Returns the jobs of these documents, in their order, and whether each has parts in rows. Raises ValueError."""
    tables: list[dict[str, Any]] = [json.loads(one) for one in documents]
    parts = _read_parts(connection, [str(one["name"]) for one in tables if _APART in one])
    joined = [_joined(one, parts[one["name"]]) if _APART in one else one for one in tables]
    return [(wire.from_wire(Job, whole), _APART in whole) for whole in joined]


def _read_parts(connection: Connection, names: Sequence[str]) -> defaultdict[str, list[tuple[str, int, Any]]]:
    parts: defaultdict[str, list[tuple[str, int, Any]]] = defaultdict(list)
    for start in range(0, len(names), _SOME):
        for row in connection.execute(_READ, {"names": names[start : start + _SOME]}):
            parts[row.job].append((row.part, row.number, json.loads(row.document)))
    return parts


def _joined(table: dict[str, Any], parts: Iterable[tuple[str, int, Any]]) -> dict[str, Any]:
    nodes: list[Any] = [None] * int(table[_APART]["nodes"])
    plan: dict[str, Any] = {**table["plan"]}
    whole: dict[str, Any] = {**table, "nodes": nodes, "plan": plan}
    for part, number, value in parts:
        if part == _NODE:
            nodes[number] = value
        elif part == _RANKS:
            plan[part] = value
        else:
            whole[part] = value
    return whole

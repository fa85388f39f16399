"""The table of the sums of booked time by day: a year of many jobs is summed from it, and not from each of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Insert, Select, func, literal, select
from sqlalchemy.dialects import postgresql, sqlite

from drumbeat.core.use_times import DAY_US, Window
from drumbeat.model.api.ledger import LedgerGroup
from drumbeat.server.database.schema import TIME_PARTS, day_sums

_D = day_sums.c
_KEY = tuple(one.name for one in day_sums.primary_key)
_SUMS = ("busy_us", *(f"{one}_us" for one in TIME_PARTS))

KINDS = {
    LedgerGroup.COMPUTE: "compute",
    LedgerGroup.DAY: "compute",
    LedgerGroup.WEEK: "compute",
    LedgerGroup.EXPERIMENT: "experiment",
    LedgerGroup.USER: "person",
}
"""The kind of sums that the rows of a ledger are made of. Those of jobs have none."""

_OWN_NAME = ("experiment", "person")


def has_whole_days(span: Window) -> bool:
    """Whether no day can lie in two buckets of a window."""
    return len(span.buckets) == 1 or (span.width % DAY_US == 0 and span.origin % DAY_US == 0)


def whole_days(span: Window) -> range:
    """Returns the days that lie within a window, where none can lie in two of its buckets."""
    return range(-(-span.since // DAY_US), span.until // DAY_US) if has_whole_days(span) else range(0)


def add(connection: Connection, rows: Sequence[Mapping[str, Any]], sign: int) -> None:
    """Adds rows of the time of jobs to their days. sign: -1 = takes them off again."""
    sums: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in rows:
        if row["until"] > row["since"]:
            added = {**row, "busy_us": busy_us(row)}
            for kind in set(KINDS.values()):
                own = {name: row[name] if name == kind else "" for name in _OWN_NAME}
                key = {**row, **own, "kind": kind, "day": row["since"] // DAY_US}
                summed = sums.setdefault(tuple(key[name] for name in _KEY), dict.fromkeys(_SUMS, 0))
                for name in _SUMS:
                    summed[name] += sign * added[name]
    if sums:
        values = [dict(zip(_KEY, key, strict=True)) | some for key, some in sums.items()]
        connection.execute(_upsert(connection), values)


def busy_us(row: Mapping[str, Any]) -> float:
    """Returns the time of GPUs while ranks worked, by how busy they were where that was measured."""
    busy = 1.0 if row["busy"] is None else row["busy"]
    return (row["train_us"] + row["checkpoint_us"]) * row["gpus"] * busy


def _upsert(connection: Connection) -> Insert:
    # Both databases have the statement, and SQLAlchemy an object of its own for each.
    dialect = postgresql if connection.dialect.name == "postgresql" else sqlite
    statement = dialect.insert(day_sums)
    return statement.on_conflict_do_update(
        index_elements=_KEY, set_={name: _D[name] + statement.excluded[name] for name in _SUMS}
    )


def query(span: Window, by: LedgerGroup, compute: str) -> Select[*tuple[Any, ...]]:
    """Returns the query of the sums of whole days: name, compute, bucket, slots, GPUs, time by part, busy GPUs.

    compute: "" = of all.
    """
    names = {LedgerGroup.EXPERIMENT: _D.experiment, LedgerGroup.USER: _D.person, LedgerGroup.COMPUTE: _D.compute}
    name = names.get(by, literal(""))
    bucket = literal(span.buckets[0]) if len(span.buckets) == 1 else (_D.day * DAY_US - span.origin) // span.width
    keys = name.label("name"), _D.compute, bucket.label("bucket"), _D.slots, _D.gpus
    days = whole_days(span)
    chosen = select(*keys, *(func.sum(_D[f"{one}_us"]) for one in TIME_PARTS), func.sum(_D.busy_us)).where(
        _D.kind == KINDS[by], _D.day >= days.start, _D.day < days.stop
    )
    if compute:
        chosen = chosen.where(_D.compute == compute)
    return chosen.group_by("name", _D.compute, "bucket", _D.slots, _D.gpus)

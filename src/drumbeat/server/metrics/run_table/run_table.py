"""The service of tables of runs: reads the values that a query names, and filters, sorts and groups by them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from drumbeat.core.run_queries.conditions import Condition
from drumbeat.core.run_queries.fields import Cell, Field, Kind, Point
from drumbeat.core.run_queries.parser import SortKey, parse_fields, parse_filter, parse_sort
from drumbeat.core.run_queries.run_table import grouped, matching, sorted_rows, spread_of
from drumbeat.model.api.runs import GroupCell, RunColumn, RunFieldView, RunGroup, RunTableRow, RunTableView
from drumbeat.model.metrics import value_to_json
from drumbeat.model.primary_metrics import Goal, PrimaryMetric, goal_of
from drumbeat.server.jobs.job_filter import JobFilter
from drumbeat.server.loop.loop import Loop
from drumbeat.server.metrics.metrics import Metrics
from drumbeat.server.metrics.run_table.run_facts import KnownFacts, RunFacts

MAX_FIELDS = 1000
"""Maximum number of fields of each kind that are listed."""
DEFAULT_METRICS, DEFAULT_INPUTS = 4, 6
"""Maximum number of columns for metrics and for inputs and parameters when none are chosen."""
PRIMARY = Field("attribute", "primary")
_OWN_TAGS = "mlflow."
"""Begins the tags that MLflow sets itself."""
_RESULT = re.compile(r"(^|[^a-z])(val|valid|validation|eval|test)([^a-z]|$)", re.IGNORECASE)


@dataclass(frozen=True)
class RunQuery:
    """What a table of runs shows. columns: () = the default ones, and those of the other fields."""

    columns: tuple[Field, ...] = ()
    where: tuple[Condition, ...] = ()
    sort: tuple[SortKey, ...] = ()
    group_by: tuple[Field, ...] = ()

    @classmethod
    def parse(cls, columns: str, where: str, sort: str, group_by: str) -> RunQuery:
        """Returns the query of these texts. Raises SpecError."""
        return cls(parse_fields(columns), parse_filter(where), parse_sort(sort), parse_fields(group_by, "group_by"))

    @property
    def named(self) -> tuple[Field, ...]:
        """The fields of filter, order and groups, each once."""
        fields = (*(one.field for one in self.where), *(one.field for one in self.sort), *self.group_by)
        return tuple(dict.fromkeys(fields))


@dataclass(frozen=True)
class _Row:
    """A run, and the values of it that have been read, by field."""

    facts: RunFacts
    is_archived: bool
    values: dict[Field, Cell]


class RunTable:
    """Reads tables of runs. Thread-safe. title: returns the current name of a job's experiment."""

    def __init__(self, loop: Loop, metrics: Metrics, title: Callable[[str], str]) -> None:
        self._loop, self._metrics, self._title = loop, metrics, title
        self._known = KnownFacts()

    def read(self, chosen: JobFilter, query: RunQuery, offset: int = 0, limit: int = 1000) -> RunTableView:
        """Returns a page of the runs of these jobs that the query chooses.

        Without an order, the newest comes first; runs that are equal in the order come so, too.
        """
        now = self._loop.clock.now()
        rows = self._rows(chosen)
        needed = query.named
        columns = query.columns or self._default_columns(rows, needed)
        self._fill(rows, needed, now)
        rows = sorted_rows(matching(rows, query.where, _value), query.sort, _value)
        page = rows[offset : offset + limit]
        self._fill(rows if query.group_by else page, columns, now)
        groups = [
            RunGroup(
                tuple(map(_shown, values)),
                tuple(row.facts.job for row in members),
                tuple(_group_cell([row.values[column] for row in members]) for column in columns),
            )
            for values, members in (grouped(rows, query.group_by, _value) if query.group_by else ())
        ]
        titles = {name: self._title(name) for name in {row.facts.experiment for row in page}}
        shown = tuple(RunColumn(str(column), column.unit.value) for column in columns)
        return RunTableView(shown, tuple(_run_row(row, columns, titles) for row in page), len(rows), tuple(groups))

    def fields(self, chosen: JobFilter) -> list[RunFieldView]:
        """Returns the fields that the runs of these jobs have: attributes, inputs, metrics, parameters, tags."""
        return self._fields(self._rows(chosen))

    def _fields(self, rows: Sequence[_Row]) -> list[RunFieldView]:
        fields: list[tuple[Field, int, int]] = []
        fields += [
            (Field("attribute", key), runs, values)
            for key, runs, values in _counted(row.facts.attributes for row in rows)
        ]
        started = sum(row.facts.started_at is not None for row in rows)
        fields += [(Field("attribute", key), started, 0) for key in ("duration", "gpu_hours") if started]
        runs = [row.facts.run for row in rows]
        uses = [] if self._metrics.is_empty else self._metrics.store.field_uses(runs, MAX_FIELDS)
        logged_by = {one.key: one.runs for one in uses if one.kind == "metric"}
        common = self._metrics.store.common_primary(runs, logged_by) if logged_by else None
        if logged_by:
            fields += [(PRIMARY, max(logged_by.values()), 0)]
        fields += [(Field("attribute", "experiment"), len(rows), len({row.facts.experiment for row in rows}))]
        fields += [
            (Field("input", key), runs, values) for key, runs, values in _counted(row.facts.inputs for row in rows)
        ]
        fields += [
            (Field(one.kind, one.key), one.runs, one.values)
            for one in uses
            if not (one.kind == "tag" and one.key.startswith(_OWN_TAGS))
        ]
        logged = {field for field, _, _ in fields}
        tags = [(Field("tag", key), count, 0) for key, count, _ in _counted(row.facts.tags for row in rows)]
        fields += [one for one in tags if one[0] not in logged]
        defaults = _defaults(fields)
        return [
            RunFieldView(
                str(field),
                field.unit.value,
                count,
                values,
                is_default=field in defaults,
                is_primary=common is not None and field == Field("metric", common.name),
                goal=_goal(field, common),
            )
            for field, count, values in fields
        ]

    def _default_columns(self, rows: Sequence[_Row], named: Sequence[Field]) -> tuple[Field, ...]:
        defaults = parse_fields(",".join(one.field for one in self._fields(rows) if one.is_default))
        return tuple(dict.fromkeys((*named, *defaults)))

    def _rows(self, chosen: JobFilter) -> list[_Row]:
        heads = self._loop.store.job_heads(chosen)
        cached = {name: self._known.get(name, version) for name, version, _ in heads}
        fresh = self._known.put(self._loop.store.jobs_named([name for name, facts in cached.items() if facts is None]))
        facts = [(cached[name] or fresh.get(name), is_archived) for name, _, is_archived in heads]
        return [_Row(one, is_archived, {}) for one, is_archived in facts if one is not None]  # Others were deleted.

    def _fill(self, rows: Sequence[_Row], fields: Iterable[Field], now: datetime) -> None:
        """Reads the values of these fields into the rows that don't have them."""
        missing = [field for field in dict.fromkeys(fields) if rows and field not in rows[0].values]
        runs = [row.facts.run for row in rows]
        wanted: set[tuple[Kind, Point]] = {(field.kind, field.point) for field in missing}
        for kind, point in wanted:
            own = [field for field in missing if (field.kind, field.point) == (kind, point)]
            stored = self._stored(kind, point, runs, {field.key for field in own})
            for row in rows:
                of_run = stored.get(row.facts.run, {})
                for field in own:
                    row.values[field] = self._value(row.facts, field, of_run.get(field.key), now)

    def _stored(
        self, kind: Kind, point: Point, runs: Sequence[str], names: Collection[str]
    ) -> Mapping[str, Mapping[str, Cell]]:
        if kind == "input" or self._metrics.is_empty:
            return {}
        if kind == "attribute":
            return self._primary_values(runs) if PRIMARY.key in names else {}
        if kind == "metric":
            return self._metrics.store.metric_values(runs, names, point)
        return self._metrics.store.text_values("params" if kind == "param" else "tags", runs, names)

    def _primary_values(self, runs: Sequence[str]) -> dict[str, dict[str, Cell]]:
        """Returns of each run the best value of the metric that counts, or its last one."""
        return {
            run: {PRIMARY.key: one.best.value if one.best else one.series.last.value}
            for run, one in self._metrics.store.primaries(runs).items()
        }

    def _value(self, facts: RunFacts, field: Field, stored: Cell, now: datetime) -> Cell:
        if field.kind == "input":
            return facts.inputs.get(field.key)
        if field.kind == "tag":
            return facts.tags.get(field.key) if stored is None else stored
        if field.kind != "attribute":
            return stored
        match field.key:
            case "duration":
                return facts.duration_s(now)
            case "gpu_hours":
                return facts.gpu_hours(now)
            case "experiment":
                return self._title(facts.experiment)
            case "primary":
                return stored
            case _:
                return facts.attributes[field.key]


def _goal(field: Field, common: PrimaryMetric | None) -> Goal | None:
    """Returns which values of a metric are better, by the metric that counts or by its name."""
    if field.kind != "metric":
        return None
    return common.goal if common and common.name == field.key else goal_of(field.key)


def _value(row: _Row, field: Field) -> Cell:
    return row.values[field]


def _run_row(row: _Row, columns: Sequence[Field], titles: Mapping[str, str]) -> RunTableRow:
    attributes = row.facts.attributes
    return RunTableRow(
        row.facts.job,
        str(attributes["display_name"]),
        titles[row.facts.experiment],
        str(attributes["state"]),
        str(attributes["reason"]),
        str(attributes["type"]),
        row.is_archived,
        tuple(_shown(row.values[column]) for column in columns),
    )


def _shown(cell: Cell) -> Any:
    return value_to_json(cell) if isinstance(cell, float) else cell


def _group_cell(cells: Sequence[Cell]) -> GroupCell:
    one = spread_of(cells)
    return GroupCell(one.numbers, one.mean, one.spread, one.low, one.high, _shown(one.common))


def _counted(tables: Iterable[Mapping[str, Cell]]) -> list[tuple[str, int, int]]:
    """Returns each key, how many tables have a value of it, and how many different values there are."""
    runs: Counter[str] = Counter()
    values: dict[str, set[Cell]] = {}
    for table in tables:
        for key, cell in table.items():
            if cell is not None:
                runs[key] += 1
                values.setdefault(key, set()).add(cell)
    return [(key, runs[key], len(values[key])) for key in runs]


def _defaults(fields: Sequence[tuple[Field, int, int]]) -> frozenset[Field]:
    """Returns the columns that are shown when none are chosen: state, results, what differs, duration and time."""
    metrics = [(field, runs) for field, runs, _ in fields if field.kind == "metric"]
    metrics.sort(key=lambda one: (_RESULT.search(one[0].key) is None, -one[1], one[0].key))
    settings = [(field, runs) for field, runs, values in fields if field.kind in ("input", "param") and values > 1]
    inputs = {field.key for field, _ in settings if field.kind == "input"}
    # Scripts often log their inputs as parameters, too.
    settings = [one for one in settings if one[0].kind == "input" or one[0].key not in inputs]
    users = [field for field, _, values in fields if field == Field("attribute", "user") and values > 1]
    attributes = [Field("attribute", key) for key in ("state", "duration", "submitted")]
    attributes += [field for field, _, _ in fields if field == PRIMARY]
    chosen = [one for one, _ in metrics[:DEFAULT_METRICS]] + [one for one, _ in settings[:DEFAULT_INPUTS]]
    return frozenset([*attributes, *users, *chosen])

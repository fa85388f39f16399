"""The fields of a run: what a column shows, and what filters, orders and groups name."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

Cell = float | str | None
"""The value of a field: a number, a text, or None where the run has none. Times are milliseconds since 1970 in UTC."""


class Unit(StrEnum):
    """What the values of a field are."""

    TEXT = "text"
    NUMBER = "number"
    TIME = "time"
    """Milliseconds since 1970."""
    DURATION = "duration"
    """Seconds."""
    ANY = "any"
    """Numbers or texts, as the script or the job file has them."""


Kind = Literal["attribute", "metric", "param", "input", "tag"]
Point = Literal["last", "min", "max"]

POINTS: tuple[Point, ...] = ("last", "min", "max")
"""Which value of a metric's curve is meant; `last` without a word."""

PREFIXES: dict[str, Kind] = {
    "metric": "metric", "metrics": "metric",
    "param": "param", "params": "param", "parameter": "param", "parameters": "param",
    "input": "input", "inputs": "input",
    "tag": "tag", "tags": "tag",
    "attribute": "attribute", "attributes": "attribute", "attr": "attribute", "run": "attribute",
}  # fmt: skip
"""The kind of a field by the word before its first dot; MLflow's words are among them."""

ATTRIBUTES: dict[str, Unit] = {
    "name": Unit.TEXT,
    "display_name": Unit.TEXT,
    "state": Unit.TEXT,
    "reason": Unit.TEXT,
    "error": Unit.TEXT,
    "status": Unit.TEXT,
    "experiment": Unit.TEXT,
    "user": Unit.TEXT,
    "compute": Unit.TEXT,
    "environment": Unit.TEXT,
    "type": Unit.TEXT,
    "parent": Unit.TEXT,
    "run_id": Unit.TEXT,
    "submitted": Unit.TIME,
    "started": Unit.TIME,
    "ended": Unit.TIME,
    "duration": Unit.DURATION,
    "nodes": Unit.NUMBER,
    "ranks": Unit.NUMBER,
    "gpus": Unit.NUMBER,
    "gpu_hours": Unit.NUMBER,
    "failures": Unit.NUMBER,
    "primary": Unit.NUMBER,
}
"""The fields without a prefix. error: why the run failed. status: its state in MLflow's words. primary: the best
value of the metric that counts, the last one where it isn't known which are better.
"""

ALIASES: dict[str, str] = {
    "run_name": "display_name", "run name": "display_name", "Run name": "display_name", "Run Name": "display_name",
    "user_id": "user", "person": "user",
    "start_time": "started", "created": "started", "Created": "started", "end_time": "ended",
}  # fmt: skip
"""MLflow's names of attributes that have another one here, and `person`, as `user` was called before."""

_PLAIN = re.compile(r"""[^\s"'`()<>=!~,]+""")


@dataclass(frozen=True)
class Field:
    """A field of runs. key: of a metric, parameter, input or tag its name; of an attribute one of `ATTRIBUTES`."""

    kind: Kind
    key: str
    point: Point = "last"

    @property
    def unit(self) -> Unit:
        """What its values are."""
        if self.kind == "attribute":
            return ATTRIBUTES[self.key]
        return {"metric": Unit.NUMBER, "tag": Unit.TEXT}.get(self.kind, Unit.ANY)

    def __str__(self) -> str:
        """The text by which queries name it: `state`, `min(metric.loss)`, `tag."a b"`."""
        if self.kind == "attribute":
            return self.key
        key = self.key if _PLAIN.fullmatch(self.key) else '"' + self.key.replace('"', '""') + '"'
        name = f"{self.kind}.{key}"
        return name if self.point == "last" else f"{self.point}({name})"


def number_of(cell: Cell) -> float | None:
    """Returns the number that a cell is or that its text says; None = neither."""
    if not isinstance(cell, str):
        return cell
    if not cell or cell[0] not in "+-.0123456789iInN":  # Most texts are no numbers, at once.
        return None
    try:
        return float(cell) if "_" not in cell else None
    except ValueError:
        return None

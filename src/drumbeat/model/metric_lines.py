"""The lines in which nodes spool and forward records of runs.

A line is eight hex digits of the CRC-32 of its JSON, a blank, the JSON and a newline. The offset of a line is its place
in the spool in bytes, so an offset is always the end of a line or 0.

How NaN and infinities are written: `value_to_json` in `metrics.py`.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple, cast

from drumbeat.model.metrics import (
    RUN_STATUSES,
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
    TagDeleted,
    TagsSet,
    misfit,
    value_from_json,
    value_to_json,
)

MAX_NAME = 250
"""Characters in the name of a metric and in the key of a parameter or tag, as in MLflow."""

_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")
_RUN = re.compile(r"[0-9a-f]{32}", re.ASCII)
_NO_RUN = "0" * 32
"""The run of a record that changes nothing."""
_MAX_INT = 2**63 - 1
_SUM_DIGITS = 8
_MAX_DEPTH = 32
"""Levels of objects and lists in a dataset or model; what MLflow's clients send has four."""


class Spooled(NamedTuple):
    """A record and where its line ends in the spool of its source."""

    end: int
    record: MetricRecord


def encode_record(record: MetricRecord) -> bytes:
    """Returns the record's line, newline included."""
    body = json.dumps(record_to_wire(record), separators=(",", ":")).encode()
    return b"%08x %s\n" % (zlib.crc32(body), body)


BLANK = InputsLogged("0" * 32)
"""A record that changes nothing."""


def blank_line(length: int) -> bytes:
    """Returns a line of this length whose record changes nothing, to stand for a line of the spool that is skipped."""
    body = b'{"kind":"inputs","run":"%s"}' % _NO_RUN.encode()
    body = body.ljust(length - _SUM_DIGITS - len(b" \n"))
    return b"%08x %s\n" % (zlib.crc32(body), body)


def decode_record(line: bytes, note: Callable[[str], None] | None = None) -> MetricRecord:
    """Returns the record of a line, with or without its newline.

    Raises ValueError for a line that was cut or damaged, and for a record that isn't one, unless `note` takes the
    sentence on it.
    """
    body = line[_SUM_DIGITS + 1 :].rstrip(b"\n")
    if line[: _SUM_DIGITS + 1] != b"%08x " % zlib.crc32(body):
        raise ValueError(f"the checksum of a line of the spool doesn't match: {line[:80]!r}")
    wire: object = None
    try:
        wire = json.loads(body)
        return record_from_wire(wire)
    except (ValueError, RecursionError) as error:
        why = "a record is nested too deeply" if isinstance(error, RecursionError) else str(error)
        if note is None:
            raise ValueError(why) from None
        note(why)
        return _fitting_part(wire)


def _fitting_part(wire: object) -> MetricRecord:
    """Returns the record without those of its points, parameters or tags that don't fit, else one without effect."""
    fields = cast(JsonObject, wire) if isinstance(wire, dict) else {}
    for key in ("points", "params", "tags"):
        value = fields.get(key)
        if isinstance(value, list):
            points = cast("list[Any]", value)
            fields = {**fields, key: [one for one in points if _is_record({**fields, key: [one]})]}
        elif isinstance(value, dict):
            pairs = cast(JsonObject, value).items()
            fields = {**fields, key: {name: one for name, one in pairs if _is_record({**fields, key: {name: one}})}}
    return record_from_wire(fields) if _is_record(fields) else InputsLogged(_NO_RUN)


def _is_record(wire: JsonObject) -> bool:
    try:
        record_from_wire(wire)
    except (ValueError, RecursionError):
        return False
    return True


def spooled(body: bytes, offset: int, note: Callable[[str], None] | None = None) -> list[Spooled]:
    """Returns the records of whole lines that begin at `offset` of the spool. Raises ValueError.

    note: is given a sentence on each record of an undamaged line that doesn't fit; what fits of it is returned.
    """
    records: list[Spooled] = []
    for line in body.splitlines(keepends=True):
        if not line.endswith(b"\n"):
            raise ValueError("the last line has no end")
        offset += len(line)
        records.append(Spooled(offset, decode_record(line, note)))
    return records


def record_to_wire(record: MetricRecord) -> JsonObject:
    """Returns the record as JSON-able values, with its `kind`."""
    if isinstance(record, PointsLogged):
        points = [(p.name, value_to_json(p.value), p.step, p.at_ms) for p in record.points]
        return {"kind": "points", "run": record.run, "rank": record.rank, "points": points}
    return {"kind": _KIND_OF[type(record)], **asdict(record)}


def record_from_wire(wire: object) -> MetricRecord:
    """Returns the record with these values. Raises ValueError, which names what doesn't fit."""
    if not isinstance(wire, dict):
        raise misfit("record", "an object", wire)
    fields = _Fields(cast(JsonObject, wire))
    read = _READERS.get(fields.text("kind"))
    if read is None:
        raise ValueError(f"unknown kind of record {fields.text('kind')[:40]!r}; known: {', '.join(_READERS)}")
    return read(fields)


@dataclass(frozen=True)
class _Fields:
    """Reads the fields of a record. Every method raises ValueError with the field's name."""

    values: Mapping[str, Any]

    @property
    def run(self) -> str:
        run = self.values.get("run")
        if not isinstance(run, str) or not _RUN.fullmatch(run):
            raise misfit("run", "32 hex digits", run)
        return run

    def text(self, key: str) -> str:
        return _text(self.values.get(key, ""), key)

    def number(self, key: str) -> int:
        return _whole(self.values.get(key), key)

    def texts(self, key: str) -> dict[str, str]:
        value = self.values.get(key)
        if not isinstance(value, dict):
            raise misfit(key, "an object of texts", value)
        return _pairs(cast(JsonObject, value), key)

    def objects(self, key: str) -> tuple[JsonObject, ...]:
        return storable_objects(self.values.get(key, []), key)

    def datasets(self) -> tuple[JsonObject, ...]:
        return storable_datasets(self.values.get("datasets", []))

    def points(self) -> tuple[Point, ...]:
        value = self.values.get("points")
        if not isinstance(value, list):
            raise misfit("points", "a list", value)
        return tuple(point_from_wire(one) for one in cast("list[Any]", value))


def storable_datasets(value: object) -> tuple[JsonObject, ...]:
    """Returns a list of MLflow's `DatasetInput` as a database keeps it. Raises ValueError."""
    datasets = storable_objects(value, "datasets")
    for one in datasets:
        if not isinstance(one.get("dataset"), dict):
            raise misfit("datasets", "objects with a dataset that is an object", one)
        storable_objects(one.get("tags") or [], "datasets.tags")
    return datasets


def storable_objects(value: object, key: str) -> tuple[JsonObject, ...]:
    """Returns a list of JSON objects as a database keeps it, texts cleaned at any depth. Raises ValueError."""
    if not isinstance(value, list) or not all(isinstance(one, dict) for one in cast("list[object]", value)):
        raise misfit(key, "a list of objects", value)
    return tuple(_storable(one, key, _MAX_DEPTH) for one in cast("list[JsonObject]", value))


def _storable(value: Any, key: str, depth: int) -> Any:
    if isinstance(value, str):
        return _text(value, key)
    if isinstance(value, float):
        return value_to_json(value)
    if not isinstance(value, dict | list):
        return value
    if depth == 0:
        raise ValueError(f"{key}: nested more than {_MAX_DEPTH} levels deep")
    if isinstance(value, list):
        return [_storable(one, key, depth - 1) for one in cast("list[Any]", value)]
    return {_text(name, key): _storable(one, key, depth - 1) for name, one in cast(JsonObject, value).items()}


def _pairs(value: Mapping[str, Any], key: str) -> dict[str, str]:
    return {storable_name(name, key): _text(one, f"{key}.{name}") for name, one in value.items()}


def point_from_wire(wire: Any) -> Point:
    """Returns the point with these name, value, step, at_ms. Raises ValueError."""
    if not isinstance(wire, list) or len(cast("list[Any]", wire)) != len(Point._fields):
        raise misfit("points", "lists of name, value, step, at_ms", wire)
    name, value, step, at_ms = cast("list[Any]", wire)
    return Point(storable_name(name, "points"), value_from_json(value), _whole(step, "step"), _whole(at_ms, "at_ms"))


def _text(value: Any, key: str) -> str:
    if not isinstance(value, str):
        raise misfit(key, "a text", value)
    return storable_text(value)


def storable_name(name: Any, key: str) -> str:
    """Returns the name of a metric, parameter or tag as a database keeps it. Raises ValueError."""
    if not isinstance(name, str) or not 0 < len(name) <= MAX_NAME:
        raise misfit(key, f"a name of 1 to {MAX_NAME} characters", name)
    if _UNPRINTABLE.search(name):
        raise misfit(key, "a name without control characters and marks of the reading direction", name)
    return _text(name, key)


def _whole(value: Any, key: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or abs(value) > _MAX_INT:
        raise misfit(key, "a whole number of 64 bits", value)
    return value


def storable_text(text: str) -> str:
    """Returns the text without what a database can't keep: zero bytes and halves of surrogate pairs."""
    if text.isascii() and "\0" not in text:
        return text
    return text.replace("\0", "\ufffd").encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _created(fields: _Fields) -> RunCreated:
    names = {key: fields.text(key) for key in ("experiment", "name", "user", "job")}
    return RunCreated(run=fields.run, start_ms=fields.number("start_ms"), tags=fields.texts("tags"), **names)


def _updated(fields: _Fields) -> RunUpdated:
    status = fields.text("status")
    if status != "" and status not in RUN_STATUSES:
        raise misfit("status", f"one of {', '.join(RUN_STATUSES)}", status)
    end_ms = None if fields.values.get("end_ms") is None else fields.number("end_ms")
    return RunUpdated(fields.run, status, end_ms, fields.text("name"))


_READERS: dict[str, Callable[[_Fields], MetricRecord]] = {
    "points": lambda f: PointsLogged(f.run, f.number("rank"), f.points()),
    "run_created": _created,
    "run_updated": _updated,
    "run_deleted": lambda f: RunDeleted(f.run, f.number("at_ms")),
    "run_restored": lambda f: RunRestored(f.run),
    "params": lambda f: ParamsLogged(f.run, f.texts("params")),
    "tags": lambda f: TagsSet(f.run, f.texts("tags")),
    "tag_deleted": lambda f: TagDeleted(f.run, f.text("key")),
    "inputs": lambda f: InputsLogged(f.run, f.datasets(), f.objects("models")),
    "outputs": lambda f: OutputsLogged(f.run, f.objects("models")),
}

_KIND_OF: dict[type[Any], str] = {
    RunCreated: "run_created",
    RunUpdated: "run_updated",
    RunDeleted: "run_deleted",
    RunRestored: "run_restored",
    ParamsLogged: "params",
    TagsSet: "tags",
    TagDeleted: "tag_deleted",
    InputsLogged: "inputs",
    OutputsLogged: "outputs",
}

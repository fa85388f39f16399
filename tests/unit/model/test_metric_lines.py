"""Lines of records are read back as they were, and damaged or invalid ones are refused."""

from __future__ import annotations

import json
import math
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drumbeat.model.metric_lines import blank_line, decode_record, encode_record, spooled
from drumbeat.model.metrics import (
    InputsLogged,
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
    experiment_id,
    node_rank,
    run_id,
)

RUN = run_id("calm-fox")

RECORDS: list[MetricRecord] = [
    RunCreated(RUN, experiment_id("mnist"), "calm-fox", 1, "ada", "calm-fox", {"mlflow.runName": "calm-fox"}),
    RunUpdated(RUN, "FINISHED", 3, "renamed"),
    RunUpdated(RUN),
    RunDeleted(RUN, 5),
    RunRestored(RUN),
    PointsLogged(RUN, 3, (Point("loss", 0.25, 7, 1_700_000_000_000), Point("lr", math.inf, -1, 0))),
    PointsLogged(RUN, node_rank(1), ()),
    ParamsLogged(RUN, {"lr": "0.1", "name": "größe\n\u2028"}),
    TagsSet(RUN, {"a": ""}),
    TagDeleted(RUN, "a"),
    InputsLogged(RUN, ({"dataset": {"name": "d"}},), ({"model_id": "m-1"},)),
    OutputsLogged(RUN, ({"model_id": "m-1", "step": 2},)),
]


def line_with(body: object) -> bytes:
    text = json.dumps(body).encode()
    return b"%08x %s\n" % (zlib.crc32(text), text)


@pytest.mark.parametrize("record", RECORDS, ids=lambda r: type(r).__name__)
def test_a_record_is_the_same_after_its_line_is_read(record: MetricRecord) -> None:
    assert decode_record(encode_record(record)) == record


def test_a_point_that_is_not_a_number_is_read_as_such() -> None:
    record = decode_record(encode_record(PointsLogged(RUN, 0, (Point("loss", math.nan, 0, 0),))))
    assert isinstance(record, PointsLogged)
    assert math.isnan(record.points[0].value)


@pytest.mark.parametrize("record", RECORDS, ids=lambda r: type(r).__name__)
def test_line_that_changes_nothing_is_as_long_as_the_one_it_stands_for(record: MetricRecord) -> None:
    length = len(encode_record(record))
    blank = blank_line(length)
    assert len(blank) == length
    assert decode_record(blank) == InputsLogged("0" * 32)


def test_offsets_of_lines_are_their_ends_in_the_spool() -> None:
    lines = [encode_record(record) for record in RECORDS]
    ends = [one.end for one in spooled(b"".join(lines), 1000)]
    assert ends == [1000 + sum(map(len, lines[: n + 1])) for n in range(len(lines))]


@given(cut=st.integers(0, 200), at=st.integers(0, 200), byte=st.integers(0, 255))
def test_a_line_with_a_changed_or_missing_byte_is_refused(cut: int, at: int, byte: int) -> None:
    whole = encode_record(RECORDS[0])[:-1]
    damaged = bytearray(whole[: len(whole) - cut])
    if at < len(damaged):
        damaged[at] = byte
    if bytes(damaged) != whole:
        with pytest.raises(ValueError, match="checksum"):
            decode_record(bytes(damaged))


def nested(depth: int) -> object:
    return [nested(depth - 1)] if depth else "x"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ([], "record: expected an object"),
        ({"kind": "spans"}, "unknown kind of record 'spans'; known: points, "),
        ({"kind": "tag_deleted", "run": "../x"}, "run: expected 32 hex digits"),
        ({"kind": "points", "run": RUN, "rank": True, "points": []}, "rank: expected a whole number"),
        ({"kind": "points", "run": RUN, "rank": 0, "points": [["a", "x", 0, 0]]}, "value: expected a number"),
        ({"kind": "points", "run": RUN, "rank": 0, "points": [["", 1, 0, 0]]}, "points: expected a name of 1 to 250"),
        ({"kind": "points", "run": RUN, "rank": 0, "points": [["a", 1, 2**63, 0]]}, "step: expected a whole number"),
        ({"kind": "params", "run": RUN, "params": {"a": 1}}, "params.a: expected a text"),
        ({"kind": "run_updated", "run": RUN, "status": "DONE"}, "status: expected one of RUNNING, "),
        ({"kind": "inputs", "run": RUN, "datasets": [1]}, "datasets: expected a list of objects"),
        ({"kind": "inputs", "run": RUN, "datasets": [{"dataset": "mnist"}]}, "datasets: expected objects with a data"),
        ({"kind": "inputs", "run": RUN, "datasets": [{"dataset": {}, "tags": ["x"]}]}, "datasets.tags: expected a li"),
        ({"kind": "outputs", "run": RUN, "models": [{"a": nested(40)}]}, "models: nested more than 32 levels deep"),
    ],
)
def test_a_record_that_does_not_fit_is_refused_by_name(body: object, message: str) -> None:
    with pytest.raises(ValueError, match=message.replace("(", r"\(")):
        decode_record(line_with(body))


@pytest.mark.parametrize(
    ("body", "kept"),
    [
        (
            {"kind": "points", "run": RUN, "rank": 0, "points": [["a", 1, 2**63, 0], ["a", 2, 1, 0], ["", 1, 0, 0]]},
            PointsLogged(RUN, 0, (Point("a", 2, 1, 0),)),
        ),
        ({"kind": "params", "run": RUN, "params": {"a": 1, "b": "2"}}, ParamsLogged(RUN, {"b": "2"})),
        ({"kind": "spans"}, InputsLogged("0" * 32)),
    ],
)
def test_record_that_fits_in_part_keeps_its_other_elements_and_those_of_its_batch(body: object, kept: MetricRecord):
    notes: list[str] = []
    records = spooled(line_with(body) + encode_record(RECORDS[0]), 0, notes.append)
    assert [one.record for one in records] == [kept, RECORDS[0]]
    assert len(notes) == 1
    with pytest.raises(ValueError, match="checksum"):
        spooled(b"00000000 {}\n", 0, notes.append)


def test_zero_bytes_and_half_characters_are_replaced() -> None:
    record = decode_record(line_with({"kind": "tags", "run": RUN, "tags": {"a": "x\0y\ud800z", "b": "😀"}}))
    assert record == TagsSet(RUN, {"a": "x\ufffdy\ufffdz", "b": "😀"})


def test_dataset_and_model_have_only_texts_and_numbers_that_a_database_keeps() -> None:
    dataset = {"dataset": {"name": "a\ud800", "digest": "b\0", "n\0": [math.nan, 1.5, True, None]}}
    record = decode_record(encode_record(InputsLogged(RUN, (dataset,), ({"model_id": "\udfff"},))))
    kept = {"dataset": {"name": "a\ufffd", "digest": "b\ufffd", "n\ufffd": ["NaN", 1.5, True, None]}}
    assert record == InputsLogged(RUN, (kept,), ({"model_id": "\ufffd"},))


def test_ids_of_runs_and_experiments_are_computed_from_names() -> None:
    assert run_id("calm-fox") == run_id("calm-fox") != run_id("calm-fox-2")
    assert len(run_id("a")) == 32
    assert experiment_id("mnist").isdigit()


@pytest.mark.feature("X1")
@pytest.mark.parametrize("name", ["a\x1b[2J", "a\nb", "a\x9b", "\u202eloss", "a\u2066", "\x7f"])
def test_name_that_could_change_a_terminal_is_refused(name: str) -> None:
    for body in ({"kind": "points", "points": [[name, 1.0, 0, 0]]}, {"kind": "params", "params": {name: "1"}}):
        with pytest.raises(ValueError, match="a name without control characters"):
            decode_record(line_with({"run": RUN, "rank": 0, **body}))

"""Division of tables by bytes: whole rows, none twice, never across files."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from pathlib import Path

import pytest

from drumbeat.parallel.mini_batches import divide, fingerprint
from drumbeat.parallel.mltable import RowReader, reader_by_name
from drumbeat.parallel.row_filter import RowFilter
from drumbeat.parallel.settings import ParallelSettings, RunnerError
from drumbeat.parallel.table_rows import divide_rows

pytestmark = pytest.mark.feature("R3")


@pytest.mark.parametrize("size", [1, 7, 64, 1000, 1 << 20])
@pytest.mark.parametrize("is_cut_off", [True, False])
def test_parts_are_whole_rows_that_follow_each_other(tmp_path: Path, size: int, is_cut_off: bool):
    rows = [f"{n},{'x' * (n % 13)}\n".encode() for n in range(200)]
    content = b"".join(rows)
    path = tmp_path / "a.csv"
    path.write_bytes(b"n,text\n" + (content[:-1] if is_cut_off else content))
    parts = [*divide_rows(str(path), size, reader_by_name("a.csv"))]
    whole = path.read_bytes()
    assert parts[0].start == len(b"n,text\n")
    assert parts[-1].end == len(whole)
    assert all(one.end == other.start for one, other in pairwise(parts))
    assert sum(one.count for one in parts) == 200
    assert all(whole[one.start : one.end].splitlines() for one in parts)
    assert all(one.end - one.start >= size for one in parts[:-1])


def test_empty_tables_and_empty_lines_give_no_rows(tmp_path: Path):
    (tmp_path / "a.csv").write_text("x\n\n1\n\n")
    (tmp_path / "b.csv").write_text("x\n")
    (tmp_path / "c.jsonl").write_text("")
    [only] = divide(ParallelSettings(input=str(tmp_path), mini_batch_bytes=100))
    assert (only.files, only.items) == (("a.csv",), 1)


def test_mini_batches_never_reach_across_files_and_name_their_rows(tmp_path: Path):
    for name in ("a.csv", "b.tsv"):
        (tmp_path / name).write_text("x\n" + "1\n" * 10)
    (tmp_path / "MLTable").write_text('{"paths": [{"folder": "."}]}')
    batches = divide(ParallelSettings(input=str(tmp_path), mini_batch_bytes=8))
    assert [(one.files[0], one.items) for one in batches] == [
        (name, count) for name in ("a.csv", "b.tsv") for count in (4, 4, 2)
    ]
    other = divide(ParallelSettings(input=str(tmp_path), mini_batch_bytes=9))
    assert fingerprint(batches) != fingerprint(other)


def test_input_without_rows_and_files_of_another_kind_are_refused(tmp_path: Path):
    (tmp_path / "a.csv").write_text("x\n")
    with pytest.raises(RunnerError, match="input_data has no rows"):
        divide(ParallelSettings(input=str(tmp_path), mini_batch_bytes=8))
    (tmp_path / "b.bin").write_text("PAR1")
    with pytest.raises(RunnerError, match=r"b\.bin can't be divided by bytes"):
        divide(ParallelSettings(input=str(tmp_path), mini_batch_bytes=8))


# --- MLTable ----------------------------------------------------------------------------------------------------------
def described(folder: Path, *transformations: object, paths: object = ({"pattern": "./*.csv"},)) -> ParallelSettings:
    """The settings of a step whose input is a table. YAML's parser isn't needed for JSON."""
    for name in ("a.csv", "b.csv"):
        (folder / name).write_text("x\n" + "1\n" * 10)
    (folder / "MLTable").write_text(json.dumps({"paths": paths, "transformations": transformations}))
    return ParallelSettings(input=str(folder), mini_batch_bytes=8)


def test_take_and_skip_count_rows_over_all_files_of_the_table(tmp_path: Path):
    batches = divide(described(tmp_path, "read_delimited", {"skip": 5}, {"keep_columns": "x"}, {"take": 9}))
    assert [(one.files[0], one.items, one.rows.cuts if one.rows else ()) for one in batches] == [
        ("a.csv", 3, ((1, 4), (0, 3))), ("a.csv", 2, ((0, 2), (0, 2))), ("b.csv", 4, ((0, 4), (0, 4))),
    ]  # fmt: skip


def test_other_description_of_the_same_rows_is_another_division(tmp_path: Path):
    first = fingerprint(divide(described(tmp_path, "read_delimited")))
    (tmp_path / "again").mkdir()
    assert fingerprint(divide(described(tmp_path / "again", "read_delimited"))) == first
    (tmp_path / "other").mkdir()
    keeping = described(tmp_path / "other", "read_delimited", {"keep_columns": "x"})
    assert fingerprint(divide(keeping)) != first


def test_files_of_a_table_are_those_of_its_paths_in_their_order(tmp_path: Path):
    settings = described(tmp_path, "read_delimited", paths=[{"file": "b.csv"}, {"file": "./a.csv"}])
    assert list(dict.fromkeys(one.files[0] for one in divide(settings))) == ["b.csv", "a.csv"]


def test_line_breaks_between_quotes_are_in_a_row_where_the_table_says_so(tmp_path: Path):
    path = tmp_path / "a.csv"
    path.write_text('A,B\n1,"x\ny"\n2,z\n')
    reader = RowReader("delimited", has_line_breaks=True)
    assert [one.count for one in divide_rows(str(path), 1, reader)] == [1, 1]
    assert [one.count for one in divide_rows(str(path), 1, RowReader("delimited"))] == [1, 1, 1]


@pytest.mark.parametrize(
    ("transformations", "sentence"),
    [
        ([{"frobnicate": 1}], "the transformation frobnicate isn't supported here; supported are read_delimited,"),
        (["read_delta_lake"], "the transformation read_delta_lake isn't supported"),
        ([{"take": "x"}], "take has a number of rows, not x"),
        ([{"take": 1}, "read_delimited"], "read_delimited isn't the first"),
        ([{"read_delimited": {"sep": ","}}], "the option sep of read_delimited isn't supported"),
        ([{"read_delimited": {"delimiter": "||"}}], "has one character"),
        ([{"read_delimited": {"encoding": "utf16"}}], "rows of the encoding utf16 can't be divided"),
        ([{"read_delimited": {"header": "maybe"}}], "header of read_delimited is one of all_files_same_headers,"),
        ([{"filter": "__import__('os')"}], "isn't supported here: __import__('os') is neither"),
        ([{"filter": "col('x') >"}], "it isn't an expression"),
        ([{"keep_columns": {"pattern": "x"}}], "a pattern isn't supported"),
        ([{"take_random_sample": {"probability": 2}}], "a probability from 0 to 1"),
        ([{"convert_column_types": [{"columns": "x", "column_type": "stream_info"}]}], "stream_info"),
    ],
)
def test_what_a_table_may_not_say_is_refused_by_its_name(tmp_path: Path, transformations: list[object], sentence: str):
    with pytest.raises(RunnerError, match=re.escape(sentence)):
        divide(described(tmp_path, *transformations))


@pytest.mark.parametrize(
    ("paths", "sentence"),
    [
        ([{"file": "c.csv"}], "file c.csv doesn't exist beside the table"),
        ([{"file": "azureml://datastores/d/paths/a.csv"}], "isn't beside the table"),
        ([{"file": "a.csv", "folder": "."}], "each of `paths` has one of"),
        ([], "has no list `paths`"),
    ],
)
def test_paths_that_lead_nowhere_are_refused(tmp_path: Path, paths: list[object], sentence: str):
    with pytest.raises(RunnerError, match=re.escape(sentence)):
        divide(described(tmp_path, "read_delimited", paths=paths))


def test_filter_takes_comparisons_of_columns_and_arithmetic():
    for text in ("col('x') > 1", "not (x == 'a') and col(\"y\") - 1 <= 2 * z", "x != None or y == True"):
        RowFilter(text)

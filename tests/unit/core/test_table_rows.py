"""Division of tables by bytes: whole rows, none twice, never across files."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from drumbeat.parallel.mini_batches import divide, fingerprint
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
    parts = [*divide_rows(str(path), size)]
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
    (tmp_path / "MLTable").write_text("paths: []\n")
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
    (tmp_path / "b.parquet").write_text("PAR1")
    with pytest.raises(RunnerError, match=r"b\.parquet can't be divided by bytes"):
        divide(ParallelSettings(input=str(tmp_path), mini_batch_bytes=8))

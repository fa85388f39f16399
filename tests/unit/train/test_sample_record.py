"""Which samples a rank was given, in a file for `drumbeat rehearse`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from drumbeat.rehearsal.job_record import read_batches
from drumbeat.train.resumable_loader import SampleRecord

pytestmark = pytest.mark.feature("F9")


def record_of(folder: Path, number: int = 1) -> SampleRecord:
    variables = {"DRUMBEAT_SAMPLE_RECORD": str(folder), "DRUMBEAT_ATTEMPT": "1", "DRUMBEAT_ROUND": str(number)}
    return SampleRecord.for_rank(variables, rank=3)


def test_batch_is_written_when_the_script_has_it_and_not_when_it_is_drawn(tmp_path: Path):
    record = record_of(tmp_path)
    record.draw([1, 2])
    record.draw([3, 4])
    record.write(0, 0)
    record.begin()
    record.draw([5, 6])
    record.write(1, 0)
    batches = read_batches(tmp_path)[3]
    assert [(one.start, one.place, one.samples) for one in batches] == [
        ((1, 1), (0, 0), (1, 2)),
        ((1, 1), (1, 0), (5, 6)),
    ]


def test_half_a_line_of_a_killed_rank_is_left_out(tmp_path: Path):
    record = record_of(tmp_path)
    record.draw([1])
    record.write(0, 0)
    with (tmp_path / "3.jsonl").open("a") as file:
        file.write(json.dumps({"attempt": 1})[:5])
    assert len(read_batches(tmp_path)[3]) == 1


def test_nothing_is_kept_without_a_folder_and_no_folder_stops_a_training(tmp_path: Path):
    assert not SampleRecord.for_rank({}, rank=0).is_kept
    record = record_of(tmp_path / "missing")
    record.draw([1])
    record.write(0, 0)

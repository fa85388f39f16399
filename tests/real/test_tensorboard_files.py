"""Event files that a script writes for TensorBoard are metrics of its job once it has ended."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from .house import House, until

pytest.importorskip("tensorboard", reason="needs tensorboard: pip install 'drumbeat[tensorboard]'")

SCRIPT = """
import drumbeat
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.event_file_writer import EventFileWriter
drumbeat.log(**{"Loss/test": 9.0}, step=0)
for run in ("a", "b"):
    writer = EventFileWriter(f"outputs/runs/{run}")
    for step in range(3000):
        values = [Summary.Value(tag="Loss/train", simple_value=step / 2)]
        writer.add_event(Event(wall_time=1000 + step, step=step, summary=Summary(value=values)))
    writer.close()
writer = EventFileWriter("outputs/runs")
for step in range(2):
    values = [Summary.Value(tag="Loss/test", simple_value=float("nan"))]
    writer.add_event(Event(wall_time=1000, step=step, summary=Summary(value=values)))
writer.close()
with open("outputs/runs/events.out.tfevents.cut", "wb") as file:
    file.write(b"no such file")
"""


@pytest.mark.thorough
def test_scalars_of_event_files_are_metrics_of_rank_0_by_folder_and_tag(own_house: House):
    house = own_house
    house.script(SCRIPT)
    job = house.client.submit(house.job_file(command=f'"{sys.executable} t.py"', code=".")).name
    ended = house.client.wait(job, 100)
    assert ended is not None
    assert ended.state == "completed", ended.sentence
    until(lambda: len(names(house, job)) == 4, what="the metrics of the files")
    assert names(house, job) == {"Loss/test": 1, "tensorboard/Loss/test": 2, "a/Loss/train": 3000, "b/Loss/train": 3000}
    check_points(house, job)


def check_points(house: House, job: str) -> None:
    points = list(house.client.points(job, "a/Loss/train"))
    assert [(one.step, one.value) for one in points[:3]] == [(0, 0.0), (1, 0.5), (2, 1.0)]
    assert points[1].at.timestamp() == 1001


def names(house: House, job: str) -> dict[str, int]:
    return {one.name: one.count for one in house.client.metrics(job).series if one.rank == 0}


def test_files_that_are_taken_again_add_nothing(own_house: House, tmp_path: Path):
    house = own_house
    house.script(SCRIPT)
    # The server dies when it has taken them, before it knows that this is done.
    (tmp_path / "fuse").write_text("metrics.files_taken")
    house.environment["DRUMBEAT_FAULT"] = f"@{tmp_path}/fuse"
    ended = house.run("run", house.job_file(command=f'"{sys.executable} t.py"', code="."))
    job = next(iter(house.client.list())).name
    until(lambda: not (tmp_path / "fuse").exists(), what="the end of the server")
    until(lambda: names(house, job).get("b/Loss/train") == 3000, what="the metrics")
    assert ended.returncode in (0, 1)
    assert names(house, job) == {"Loss/test": 1, "tensorboard/Loss/test": 2, "a/Loss/train": 3000, "b/Loss/train": 3000}
    check_points(house, job)

"""Which files of a job are TensorBoard's, and what their metrics are called."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from drumbeat.control.metrics.event_files import is_event_file, names_of_folders
from drumbeat.control.metrics.metrics import MetricPlace
from drumbeat.ports.event_files import Scalar
from drumbeat.ports.metrics import Taken
from drumbeat.protocol.errors import AwayError
from drumbeat.protocol.metric_lines import Spooled
from drumbeat.protocol.metrics import Source
from drumbeat.testing.fake_engine import FakeEngine
from drumbeat.testing.memory_metrics import MemoryMetricStore
from drumbeat.testing.memory_store import MemoryStore

from .house import House, until

ONE = "outputs/default/runs/a/events.out.tfevents.1.host"
OTHER = "outputs/default/runs/b/c/events.out.tfevents.2.host"
ABOVE = "outputs/default/runs/events.out.tfevents.3.host"


def test_only_event_files_among_the_outputs_are_read():
    assert is_event_file(ONE)
    assert not is_event_file("logs/1.1/0/events.out.tfevents.1")
    assert not is_event_file("outputs/default/model.pt")


def test_files_of_one_folder_are_named_by_their_tags_alone():
    assert names_of_folders([ONE, ONE + ".v2"]) == ["", ""]


def test_files_of_several_folders_are_told_apart_by_what_differs():
    assert names_of_folders([ONE, OTHER, ABOVE]) == ["a/", "b/c/", ""]


class AwayOnce(MemoryMetricStore):
    """A database of metrics that is away for the first request to take values."""

    tries = 0

    def take(self, source: Source, offset: int, records: Sequence[Spooled]) -> Taken:
        self.tries += 1
        if self.tries == 1:
            raise AwayError("the database is starting")
        return super().take(source, offset, records)


class TwoValues:
    """Reads two values of one tag."""

    is_installed = True

    def scalars(self, files: Sequence[Path]) -> Iterator[Scalar]:
        yield from (Scalar(0, "loss", 2.0 - step, step, 1000 + step) for step in range(2) if files)


@pytest.mark.feature("M2", "F10")
def test_values_are_taken_later_where_the_database_was_away_for_a_moment(tmp_path: Path):
    metrics = AwayOnce()
    place = MetricPlace(lambda: metrics, lambda: True)
    house = House(tmp_path, MemoryStore(), FakeEngine(), metrics=place, event_reader=TwoValues())
    try:
        house.submit("a")
        house.gang("a")
        digest = hashlib.sha256(b"records").hexdigest()
        path = ONE.removeprefix("outputs/")
        house.control.artifacts.append_output("a", 1, 0, path, 0, b"records")
        assert not house.control.artifacts.commit_outputs("a", 1, 0, {path: (7, digest)})
        house.run_to_end("a")
        until(lambda: house.store.load("a").job.state.is_terminal and not house.store.outbox())
        (loss,) = house.control.metrics.main_series("a")
        assert (loss.name, loss.count, metrics.tries) == ("loss", 2, 2)
    finally:
        house.control.stop()

"""Which files of a job are TensorBoard's, and what their metrics are called."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from drumbeat.model.errors import AwayError, StorageError
from drumbeat.model.metric_lines import Spooled
from drumbeat.model.metrics import Source
from drumbeat.server.metrics.event_files.event_files import is_event_file, names_of_folders
from drumbeat.server.metrics.event_files.reader import Scalar
from drumbeat.server.metrics.metric_records import Taken
from drumbeat.server.metrics.metrics import MetricPlace
from tests.support.fake_engine import FakeEngine
from tests.support.memory_metrics import MemoryMetricStore
from tests.support.memory_store import MemoryStore

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


def test_files_of_several_folders_are_named_by_their_differing_parts():
    assert names_of_folders([ONE, OTHER, ABOVE]) == ["a/", "b/c/", ""]


class Troubled(MemoryMetricStore):
    """A database of metrics that fails as often as it has troubles left. tries: requests to take values."""

    def __init__(self, *troubles: StorageError) -> None:
        super().__init__()
        self.troubles, self.tries = list(troubles), 0

    def take(self, source: Source, offset: int, records: Sequence[Spooled]) -> Taken:
        self.tries += 1
        if self.troubles:
            raise self.troubles.pop(0)
        return super().take(source, offset, records)


class TwoValues:
    """Reads two values of one tag."""

    is_installed = True

    def __init__(self, tag: str = "loss") -> None:
        self.tag = tag

    def scalars(self, files: Sequence[Path]) -> Iterator[Scalar]:
        yield from (Scalar(0, self.tag, 2.0 - step, step, 1000 + step) for step in range(2) if files)


def metrics_of_a_job_with_files(folder: Path, metrics: Troubled, reader: TwoValues) -> list[tuple[str, int]]:
    """Runs a job that leaves event files to its end; returns its metrics, with the number of their values."""
    place = MetricPlace(lambda: metrics, lambda: True)
    house = House(folder, MemoryStore(), FakeEngine(), metrics=place, event_reader=reader)
    try:
        house.submit("a")
        house.gang("a")
        digest = hashlib.sha256(b"records").hexdigest()
        path = ONE.removeprefix("outputs/")
        house.control.artifacts.append_output("a", 1, 0, path, 0, b"records")
        assert not house.control.artifacts.commit_outputs("a", 1, 0, {path: (7, digest)})
        house.run_to_end("a")
        until(lambda: house.store.load("a").job.state.is_terminal and not house.store.outbox())
        return [(one.name, one.count) for one in house.control.metrics.main_series("a")]
    finally:
        house.control.stop()


@pytest.mark.feature("F10")
def test_values_are_taken_later_where_the_database_was_away_for_a_moment(tmp_path: Path):
    metrics = Troubled(AwayError("the database is starting"))
    assert metrics_of_a_job_with_files(tmp_path, metrics, TwoValues()) == [("loss", 2)]
    assert metrics.tries == 2


@pytest.mark.feature("F10")
def test_values_that_the_database_refuses_hold_up_neither_story_nor_end(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    metrics = Troubled(*[StorageError("the database refuses the value")] * 100)
    assert metrics_of_a_job_with_files(tmp_path, metrics, TwoValues()) == []
    assert metrics.tries == 1
    assert "its TensorBoard files can't be imported: the database refuses the value" in caplog.text


def test_tag_has_what_a_database_cannot_keep_replaced(tmp_path: Path):
    assert metrics_of_a_job_with_files(tmp_path, Troubled(), TwoValues("lo\0ss\ud800")) == [("lo\ufffdss\ufffd", 2)]

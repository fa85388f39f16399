"""Imports TensorBoard's event files among the outputs of an ended job as metrics of its rank 0.

They are taken like the spool of a node, with offsets that count the values, so repeating it adds nothing.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import PurePosixPath

from drumbeat.core.lifecycle.job import Job
from drumbeat.model.errors import AwayError, DrumbeatError
from drumbeat.model.failpoints import failpoint
from drumbeat.model.metric_lines import MAX_NAME, Spooled, storable_text
from drumbeat.model.metrics import MetricRecord, Point, PointsLogged, Source, TagsSet, run_id
from drumbeat.server.home_folder import FolderArtifacts
from drumbeat.server.metrics.event_files.reader import Scalar, TensorBoardReader
from drumbeat.server.metrics.metrics import Metrics

log = logging.getLogger(__name__)

MARK = "events.out.tfevents."
"""The prefix of the names of event files."""
RENAMED = "drumbeat.tensorboard.renamed"
"""The tag of a run with the names that its script had logged itself; in the files these get a prefix."""
PREFIX = "tensorboard/"
BATCH = 5_000


class EventFiles:
    """Takes the event files of jobs. reader: None = none are read."""

    def __init__(self, metrics: Metrics, artifacts: FolderArtifacts, reader: TensorBoardReader | None) -> None:
        self._metrics, self._artifacts, self._reader = metrics, artifacts, reader

    def take(self, job: Job) -> None:
        """Takes the files of an ended job.

        Idempotent. Raises AwayError, after which the caller retries; other errors, such as a value that the database
        refuses, are only logged.
        """
        try:
            paths = sorted(one.path for one in self._artifacts.files(job.name) if is_event_file(one.path))
            if paths and self._reader is not None:
                self._take(job, paths, self._reader)
        except AwayError:
            raise
        except (DrumbeatError, OSError, ValueError) as error:
            log.warning("job %s: its TensorBoard files can't be imported: %s", job.name, error)

    def _take(self, job: Job, paths: Sequence[str], reader: TensorBoardReader) -> None:
        if not reader.is_installed:
            log.warning("job %s has TensorBoard files; to import them, pip install 'drumbeat[tensorboard]'", job.name)
            return
        folders = names_of_folders(paths)
        files = [self._artifacts.open_file(job.name, path) for path in paths]
        source = Source(job.name, 0, 0)
        renamed = self._renamed(job, source)
        points = (_point(one, folders[one.file], renamed) for one in reader.scalars(files))
        end = 0
        for records in _records(job, points, renamed):
            spooled = [Spooled(end + place, one) for place, one in _ends(records)]
            self._metrics.take_records(job, source, end, spooled)
            end = spooled[-1].end
            failpoint("metrics.files_taken")

    def _renamed(self, job: Job, source: Source) -> frozenset[str]:
        """Returns the names that the script had logged itself when the files were first imported."""
        run = self._metrics.ensured_run(job.name)
        if self._metrics.store.taken(source):
            return frozenset(json.loads(run.tags.get(RENAMED, "[]")))
        return frozenset(one.name for one in self._metrics.main_series(job.name))


def is_event_file(path: str) -> bool:
    """Whether a file of a job is an event file."""
    return path.startswith("outputs/") and PurePosixPath(path).name.startswith(MARK)


def names_of_folders(paths: Sequence[str]) -> list[str]:
    """Returns the prefix for the tags of each file: "" if all are in one folder, else the distinguishing path."""
    folders = [PurePosixPath(path).parent.parts for path in paths]
    shared = 0
    while all(len(one) > shared and one[shared] == folders[0][shared] for one in folders):
        shared += 1
    return ["".join(f"{part}/" for part in one[shared:]) for one in folders]


def _point(scalar: Scalar, folder: str, renamed: frozenset[str]) -> Point:
    name = storable_text(folder + scalar.tag)
    name = PREFIX + name if name in renamed else name
    return Point(name[-MAX_NAME:] or "value", scalar.value, scalar.step, scalar.at_ms)


def _records(job: Job, points: Iterator[Point], renamed: frozenset[str]) -> Iterator[list[MetricRecord]]:
    """Yields batches of records; the first one has the tag with the prefixed names."""
    run = run_id(job.name)
    first: list[MetricRecord] = [TagsSet(run, {RENAMED: json.dumps(sorted(renamed))})] if renamed else []
    while batch := tuple(islice(points, BATCH)):
        yield [*first, PointsLogged(run, 0, batch)]
        first = []


def _ends(records: Sequence[MetricRecord]) -> Iterator[tuple[int, MetricRecord]]:
    end = 0
    for record in records:
        end += len(record.points) if isinstance(record, PointsLogged) else 1
        yield end, record

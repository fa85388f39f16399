"""The record of one job of a rehearsal: its end, its metrics, its files, and the batches that it read."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from drumbeat.model.api.jobs import EventView, JobWithEvents
from drumbeat.rehearsal.metric_comparison import Logged, LoggedPoint, SeriesKey

if TYPE_CHECKING:
    from drumbeat.client import Client

OUTPUTS, CHECKPOINTS = "outputs/", "checkpoints/"
_PIECE = 1 << 20


@dataclass(frozen=True)
class ReadBatch:
    """A batch that a rank got from `drumbeat.train.ResumableLoader`."""

    start: tuple[int, int]
    """The attempt and round of the rank."""
    place: tuple[int, int]
    """The epoch, and the number of its samples before the batch."""
    samples: tuple[int, ...]


@dataclass(frozen=True)
class JobRecord:
    """The record of a job that has ended or was given up."""

    job: JobWithEvents
    logged: Logged
    files: Mapping[str, Path]
    """Copies of its outputs and checkpoints, by path."""
    batches: Mapping[int, Sequence[ReadBatch]] = field(default_factory=dict[int, Sequence[ReadBatch]])
    """By rank; empty for a script that doesn't use drumbeat's loader."""
    first_checkpoint_at: float | None = None
    """When its first checkpoint was seen, in seconds since the epoch."""
    checkpoint_bytes: int = 0

    @property
    def seconds(self) -> float:
        """The duration of its ranks, including restarts."""
        job = self.job
        if job.started_at is None or job.ended_at is None:
            return 0.0
        return (job.ended_at - job.started_at).total_seconds()

    def restarted_at(self, before: tuple[int, int]) -> float | None:
        """Returns when ranks were restarted after this attempt and round, None = they weren't."""
        later = (line for line in self.job.story if (line.attempt, line.round) > before)
        return min((line.at.timestamp() for line in later), default=None)

    @property
    def restarts(self) -> int:
        """The number of restarts of the ranks."""
        return len({(line.attempt, line.round) for line in self.job.story if line.round}) - 1


def collect(client: Client, name: str, folder: Path, batches: Path) -> JobRecord:
    """Fetches everything about a job that a comparison needs, and copies its files to a folder."""
    job = client.get(name)
    logged = {
        SeriesKey(one.name, one.rank): [
            LoggedPoint(point.step, point.value, point.at.timestamp())
            for point in client.points(name, one.name, rank=one.rank)
        ]
        for one in client.metrics(name).series
    }
    files: dict[str, Path] = {}
    size = 0
    for file in client.files(name):
        if file.path.startswith((OUTPUTS, CHECKPOINTS)):
            files[file.path] = folder / name / file.path
            files[file.path].parent.mkdir(parents=True, exist_ok=True)
            client.fetch(name, file.path, files[file.path], lambda _: None)
            size += file.size if file.path.startswith(CHECKPOINTS) else 0
    return JobRecord(job, logged, files, read_batches(batches), checkpoint_bytes=size)


def read_batches(folder: Path) -> dict[int, list[ReadBatch]]:
    """Reads the record that `drumbeat.train.ResumableLoader` has written for each rank."""
    batches: dict[int, list[ReadBatch]] = {}
    for path in sorted(folder.glob("*.jsonl")):
        read = map(_read_line, path.read_text(encoding="utf-8").splitlines())
        batches[int(path.stem)] = [batch for batch in read if batch is not None]
    return batches


def _read_line(line: str) -> ReadBatch | None:
    """Returns the batch in a line; None for an unfinished line, which a killed rank may leave."""
    try:
        one = json.loads(line)
        return ReadBatch((one["attempt"], one["round"]), (one["epoch"], one["first"]), tuple(one["samples"]))
    except (ValueError, KeyError):
        return None


def effective_batches(batches: Sequence[ReadBatch], steps_before: Sequence[int] = ()) -> list[ReadBatch]:
    """Returns the effective batches: those that the next start repeated are dropped.

    steps_before: the number of batches before each start but the first, if its first step shows it; otherwise the place
    at which it begins shows it.
    """
    starts = [[*group] for _, group in groupby(batches, key=lambda one: one.start)]
    effective: list[ReadBatch] = []
    for number, start in enumerate(starts):
        if number and number <= len(steps_before):
            del effective[steps_before[number - 1] :]
        elif number:
            effective = [one for one in effective if one.place < start[0].place]
        effective += start
    return effective


def digest(path: Path) -> str:
    """Returns the SHA-256 of a file."""
    sums = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            sums.update(piece)
    return sums.hexdigest()


def format_events(events: Sequence[EventView]) -> list[str]:
    """Returns the messages of events, with the seconds since the first."""
    if not events:
        return []
    begin = events[0].at
    return [f"{(line.at - begin).total_seconds():.1f} s  {line.reason}: {line.sentence}" for line in events]

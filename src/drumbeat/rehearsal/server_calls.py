"""What a rehearsal asks of a server: `drumbeat.Client` has it all."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Protocol

from drumbeat.protocol.api.computes import ComputeView
from drumbeat.protocol.api.jobs import FileView, JobView, JobWithStory, PreviewView
from drumbeat.protocol.api.metrics import MetricsView, PointView


class RehearsalServer(Protocol):
    """The calls. Refusals are `drumbeat.protocol.errors`."""

    def plan(self, job: Path | dict[str, object], *, sets: Sequence[str] = (), name: str | None = None) -> PreviewView:
        """Returns what a job file would run."""
        ...

    def submit(self, job: Path | dict[str, object], *, sets: Sequence[str] = (), name: str | None = None) -> JobView:
        """Submits a job."""
        ...

    def get(self, name: str) -> JobWithStory:
        """Returns a job with its story."""
        ...

    def wait(self, name: str, timeout_s: float | None = None) -> JobView | None:
        """Returns a job once it has ended; None when the time is up first."""
        ...

    def cancel(self, name: str, *, discard: bool = False) -> JobView:
        """Asks a job to stop."""
        ...

    def compute(self, name: str) -> ComputeView:
        """Returns a compute."""
        ...

    def metrics(self, name: str, *, rank: int | None = None) -> MetricsView:
        """Returns the metrics of a job."""
        ...

    def points(self, name: str, metric: str, *, rank: int = 0) -> Iterator[PointView]:
        """Yields all points of a metric of one rank in the order of arrival."""
        ...

    def files(self, name: str) -> Sequence[FileView]:
        """Returns the files of a job."""
        ...

    def fetch(self, name: str, path: str, to: Path, seen: Callable[[int], None]) -> None:
        """Fetches a file of a job."""
        ...

    def log_artifact(self, name: str, path: str, content: bytes) -> None:
        """Writes a file among the artifacts of a job's run."""
        ...

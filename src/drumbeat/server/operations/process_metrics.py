"""The measurements of one server process. `metric_table.py` has the table of all metrics with names and help texts."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from functools import cached_property

from drumbeat.server.control import Control
from drumbeat.server.operations.counters import Histogram
from drumbeat.server.operations.job_change_counts import JobCounts
from drumbeat.server.operations.metric_table import Exposition, MetricSources
from drumbeat.server.operations.request_times import BOUNDS_S


class Operations:
    """Counts changes of jobs and requests since the start of the process. folder: the one that the server writes to."""

    def __init__(self, control: Control, folder: str) -> None:
        self._control = control
        self.jobs, self.requests = JobCounts(), Histogram(BOUNDS_S)
        self._sources = MetricSources(control, self.jobs, self.requests, {"home": folder} if folder else {})

    @contextmanager
    def counting(self) -> Generator[None]:
        """Counts changes of jobs during the `with` block."""
        self._control.loop.observers.append(self.jobs.note)
        try:
            yield
        finally:
            self._control.loop.observers.remove(self.jobs.note)

    def text(self) -> bytes:
        """Returns all metrics in Prometheus' text format."""
        return self._exposition.text()

    @cached_property
    def _exposition(self) -> Exposition:
        return Exposition(self._sources)

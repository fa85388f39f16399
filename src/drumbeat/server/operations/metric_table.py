"""The metrics of a server in Prometheus' text format. The first scrape imports prometheus_client.

`METRICS` is the table of all metrics; docs/operating.md lists the same, and a test compares the two.
"""

from __future__ import annotations

import shutil
import time
from collections import Counter as Tally
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from drumbeat._version import __version__
from drumbeat.core.lifecycle.backoff import queued_since
from drumbeat.core.lifecycle.job import Job
from drumbeat.core.use_times import SECOND_US, Amounts
from drumbeat.model.states import State
from drumbeat.server.computes.capacity_record import capacity_of
from drumbeat.server.control import Control
from drumbeat.server.operations.counters import Counter, Histogram, Labels
from drumbeat.server.operations.job_change_counts import JobCounts

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric
    from prometheus_client.registry import Collector

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
UNFINISHED = tuple(state for state in State if not state.is_terminal)

Values = dict[Labels, float]


@dataclass(frozen=True)
class MetricSources:
    """The sources of a server's metrics."""

    control: Control
    jobs: JobCounts
    requests: Histogram
    places: dict[str, str]
    """The folders whose disks are reported, by name."""


@dataclass(frozen=True)
class MetricRow:
    """A metric: name, help text, labels, and how it is read."""

    name: str
    help: str
    labels: Labels
    read: Callable[[MetricSources], Values | Counter | Histogram]

    @property
    def type(self) -> str:
        """Its Prometheus type."""
        if self.name.endswith("_total"):
            return "counter"
        return "histogram" if self.name in _HISTOGRAMS else "gauge"


def _jobs(sources: MetricSources) -> Values:
    tally = Tally(job.state for job in _own(sources))
    return {(state.value,): float(tally[state]) for state in UNFINISHED}


def _own(sources: MetricSources) -> list[Job]:
    return [record.job for record in list(sources.control.loop.jobs.values())]


def _in_queue(sources: MetricSources) -> list[Job]:
    """Returns the jobs that wait for slots, without those that wait before a retry."""
    return [job for job in _own(sources) if job.state is State.QUEUED and not job.retry_at]


def _queued(sources: MetricSources) -> Values:
    tally = Tally(job.plan.compute for job in _in_queue(sources))
    return {(compute,): float(tally[compute]) for compute in sources.control.engines.all()}


def _oldest(sources: MetricSources) -> Values:
    now = sources.control.loop.clock.now()
    longest = dict.fromkeys(sources.control.engines.all(), 0.0)
    for job in _in_queue(sources):
        waited_s = (now - queued_since(job)).total_seconds()
        longest[job.plan.compute] = max(longest.get(job.plan.compute, 0.0), waited_s)
    return {(compute,): seconds for compute, seconds in longest.items()}


def _nodes(sources: MetricSources) -> Values:
    counts: Values = {}
    for compute in sources.control.computes.list():
        for machine in compute.machines:
            key = (compute.name, machine.state)
            counts[key] = counts.get(key, 0.0) + 1
    return counts


def _silences(sources: MetricSources) -> list[float]:
    control = sources.control
    return [
        control.heartbeats.silent_s(job.name, job.attempt, node)
        for job in _own(sources)
        for node, status in enumerate(job.nodes)
        if status is not None and node not in job.lost
    ]


def _disks(sources: MetricSources, field: str) -> Values:
    values: Values = {}
    for place, folder in sources.places.items():
        try:
            values[place,] = float(getattr(shutil.disk_usage(folder), field))
        except OSError:
            continue
    return values


def _outbox(sources: MetricSources) -> Values:
    pending = sources.control.store.outbox()
    return {("waiting",): float(len(pending)), ("failing",): float(sum(one.tries > 0 for one in pending))}


def _held(sources: MetricSources) -> dict[Labels, tuple[int, int]]:
    """Returns the slots and GPUs that are held, by compute and user."""
    held: dict[Labels, tuple[int, int]] = {}
    for one in sources.control.store.held_slots():
        slots, gpus = held.get((one.compute, one.user), (0, 0))
        held[one.compute, one.user] = slots + one.slots, gpus + one.gpus
    return held


def _capacities(sources: MetricSources) -> dict[Labels, tuple[int, int]]:
    """Returns the slots and GPUs of usable machines, by compute."""
    return {(name,): capacity_of(one.machines) for name, one in sources.control.engines.all().items()}


def _seconds(sources: MetricSources, read: Callable[[Amounts], float]) -> Values:
    """Returns seconds of the ledger of all time, by compute and user."""
    totals = sources.control.time_book.totals()
    return {(compute, user): read(one) / SECOND_US for (user, compute), one in totals.items()}


METRICS = (
    MetricRow("drumbeat_build_info", "1; the version of the server.", ("version",), lambda _: {(__version__,): 1.0}),
    MetricRow("drumbeat_jobs", "Unfinished jobs of this server, by state.", ("state",), _jobs),
    MetricRow("drumbeat_jobs_ended_total", "Jobs that ended since the server started.", ("state", "reason"),
              lambda sources: sources.jobs.ended),
    MetricRow("drumbeat_job_failures_total", "Rounds and attempts of jobs that failed, retried or not.", ("reason",),
              lambda sources: sources.jobs.retries),
    MetricRow("drumbeat_job_wall_seconds", "Seconds from submission to the end of jobs that ended.", ("state",),
              lambda sources: sources.jobs.walls),
    MetricRow("drumbeat_queue_length", "Jobs of this server that wait for slots.", ("compute",), _queued),
    MetricRow("drumbeat_queue_oldest_seconds", "The longest wait of a job that waits for slots now.", ("compute",),
              _oldest),
    MetricRow("drumbeat_queue_wait_seconds", "Seconds that jobs waited until slots were granted.", ("compute",),
              lambda sources: sources.jobs.waits),
    MetricRow("drumbeat_nodes", "Machines of a compute, by state.", ("compute", "state"), _nodes),
    MetricRow("drumbeat_slots", "CPU slots of the usable machines.", ("compute",),
              lambda sources: {key: float(slots) for key, (slots, _) in _capacities(sources).items()}),
    MetricRow("drumbeat_gpus", "GPUs of the usable machines.", ("compute",),
              lambda sources: {key: float(gpus) for key, (_, gpus) in _capacities(sources).items()}),
    MetricRow("drumbeat_held_slots", "CPU slots that jobs hold.", ("compute", "person"),
              lambda sources: {key: float(slots) for key, (slots, _) in _held(sources).items()}),
    MetricRow("drumbeat_held_gpus", "GPUs that jobs hold.", ("compute", "person"),
              lambda sources: {key: float(gpus) for key, (_, gpus) in _held(sources).items()}),
    MetricRow("drumbeat_held_slot_seconds_total", "Slot-seconds that jobs held, as in the ledger of all time.",
              ("compute", "person"), lambda sources: _seconds(sources, lambda one: one.slot_us)),
    MetricRow("drumbeat_held_gpu_seconds_total", "GPU-seconds that jobs held, as in the ledger of all time.",
              ("compute", "person"), lambda sources: _seconds(sources, lambda one: one.gpu_us)),
    MetricRow("drumbeat_busy_gpu_seconds_total", "GPU-seconds in which ranks worked, times how busy the GPUs were.",
              ("compute", "person"), lambda sources: _seconds(sources, lambda one: one.busy_gpus)),
    MetricRow("drumbeat_agents", "Agents of this server's jobs that have enrolled and aren't lost.", (),
              lambda sources: {(): float(len(_silences(sources)))}),
    MetricRow("drumbeat_agent_silence_seconds", "Seconds since the most silent of these agents called.", (),
              lambda sources: {(): max(_silences(sources), default=0.0)}),
    MetricRow("drumbeat_loop_apply_seconds", "Seconds that the control loop took to decide and commit a change.", (),
              lambda sources: sources.jobs.applied),
    MetricRow("drumbeat_loop_tick_age_seconds", "Seconds since the control loop renewed its lease.", (),
              lambda sources: {(): sources.control.loop.beat_age_s}),
    MetricRow("drumbeat_outbox_effects", "Actions that the server has yet to carry out.", ("condition",), _outbox),
    MetricRow("drumbeat_store_takes_changes", "1; 0 while the database takes no changes, as on a full disk.", (),
              lambda sources: {(): float(not sources.control.loop.refused_writes.problem)}),
    MetricRow("drumbeat_http_request_seconds", "Seconds until the first byte of the answer to a request.",
              ("method", "route", "status"), lambda sources: sources.requests),
    MetricRow("drumbeat_disk_free_bytes", "Free bytes on the disk of a folder of the server.", ("place",),
              lambda sources: _disks(sources, "free")),
    MetricRow("drumbeat_disk_size_bytes", "Size of the disk of a folder of the server.", ("place",),
              lambda sources: _disks(sources, "total")),
)  # fmt: skip

_HISTOGRAMS = frozenset(
    {
        "drumbeat_job_wall_seconds",
        "drumbeat_queue_wait_seconds",
        "drumbeat_loop_apply_seconds",
        "drumbeat_http_request_seconds",
    }
)


class Exposition:
    """The metrics of one server process, including the usual ones of Python and the process."""

    def __init__(self, sources: MetricSources) -> None:
        from prometheus_client import CollectorRegistry
        from prometheus_client.process_collector import ProcessCollector

        self._sources = sources
        self._registry = CollectorRegistry(auto_describe=False)
        ProcessCollector(registry=self._registry)
        own: Collector = self  # pyright: ignore[reportAssignmentType] (a Protocol in all but name: it has `collect`)
        self._registry.register(own)

    def text(self) -> bytes:
        """Reads all metrics now."""
        from prometheus_client.exposition import generate_latest

        return generate_latest(self._registry)

    def collect(self) -> Iterator[Metric]:
        """Called by the registry at each scrape."""
        began = time.perf_counter()
        for row in METRICS:
            yield _family(row, row.read(self._sources))
        yield _family(SCRAPE, {(): time.perf_counter() - began})


SCRAPE = MetricRow("drumbeat_scrape_seconds", "Seconds that this scrape took.", (), lambda _: {})


def _family(row: MetricRow, value: Values | Counter | Histogram) -> Metric:
    from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

    if isinstance(value, Histogram):
        histogram = HistogramMetricFamily(row.name, row.help, labels=row.labels)
        for labels, (buckets, total) in value.read().items():
            histogram.add_metric(labels, buckets, total)
        return histogram
    if isinstance(value, Counter):
        value = value.read()
    kind = CounterMetricFamily if row.type == "counter" else GaugeMetricFamily
    family = kind(row.name, row.help, labels=row.labels)
    for labels, number in value.items():
        family.add_metric(labels, number)
    return family

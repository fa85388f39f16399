"""The service of experiments: those with runs, and those that only jobs name."""

from __future__ import annotations

import tarfile
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from drumbeat.core.ledger_times import Save
from drumbeat.core.lifecycle.job import Job
from drumbeat.jobfile.reading.error_messages import nearest
from drumbeat.model.api.metrics import ComparisonView
from drumbeat.model.errors import ConflictError, DrumbeatError, NotFoundError, Problem, SpecError
from drumbeat.model.metrics import NOTE_TAG, experiment_id
from drumbeat.model.primary_metrics import PRIMARY_TAG, PrimaryMetric
from drumbeat.server.database.records import ExperimentUse, Record
from drumbeat.server.home_folder import FolderArtifacts
from drumbeat.server.jobs.job_filter import JobFilter
from drumbeat.server.loop.bus import job_topic
from drumbeat.server.loop.loop import Loop
from drumbeat.server.metrics.code_files import CodeFile, read_files
from drumbeat.server.metrics.comparison import Compared, compare, uneven
from drumbeat.server.metrics.metric_records import Experiment, View
from drumbeat.server.metrics.metrics import Metrics

MAX_TOLD = 1000
"""Jobs of an experiment whose followers are told of a change of its own, the newest."""
MAX_COMPARED = 200
"""Maximum number of jobs in a comparison."""
MAX_CODES = 20
"""Maximum number of different snapshots whose files are compared; of more, only the digests are."""
MAX_CURVES = 1000
"""Maximum number of curves that are read to compare metrics at the last step that all jobs reached."""


@dataclass(frozen=True)
class ExperimentUsage:
    """The jobs of an experiment: their number, the last submission, and the names that they use for it."""

    jobs: int
    latest_at: datetime | None
    names: tuple[str, ...]


class Experiments:
    """Lists, renames, archives and compares experiments. Thread-safe."""

    def __init__(
        self, loop: Loop, metrics: Metrics, artifacts: FolderArtifacts, contents_of: Callable[[Job], Mapping[str, str]]
    ) -> None:
        self._loop, self._metrics, self._artifacts = loop, metrics, artifacts
        self._contents_of = contents_of
        """Returns the fingerprint of each input of a job."""
        self._notes = threading.Lock()

    def all(self, view: View = "active") -> list[tuple[Experiment, ExperimentUsage]]:
        """Returns experiments with their usage, the last created first."""
        uses = self._uses()
        return [(one, _usage(uses.get(one.id, []))) for one in self._metrics.store.experiments(view)]

    def named(self, name: str) -> tuple[Experiment, ExperimentUsage]:
        """Returns the experiment with this current or earlier name. Raises NotFoundError with the nearest name."""
        uses = self._uses()
        try:
            own = self._metrics.store.experiment(experiment_id(name))
        except NotFoundError:
            names = [one.name for one in self._metrics.store.experiments("all")]
            fix = nearest(name, names) or "List the experiments: drumbeat experiment list"
            raise NotFoundError(f"no experiment is called {name[:80]!r}", fix=fix) from None
        return own, _usage(uses.get(own.id, []))

    def rename(self, name: str, to: str) -> tuple[Experiment, ExperimentUsage]:
        """Gives an experiment another name. Raises NotFoundError, ConflictError."""
        own, usage = self.named(name)
        return self._metrics.store.rename_experiment(own.id, to, self._now_ms()), usage

    def archive(self, name: str, *, is_archived: bool) -> tuple[Experiment, ExperimentUsage]:
        """Archives an experiment, or restores it. Raises NotFoundError."""
        own, usage = self.named(name)
        return self._metrics.store.archive_experiment(own.id, self._now_ms(), is_archived=is_archived), usage

    def set_primary(self, name: str, metric: PrimaryMetric | None) -> tuple[Experiment, ExperimentUsage]:
        """Names the metric that counts for all jobs of an experiment; None leaves that to each of them.

        Raises NotFoundError.
        """
        own, usage = self.named(name)
        tag = str(metric) if metric else None
        changed = self._metrics.store.tag_experiment(own.id, PRIMARY_TAG, tag, self._now_ms())
        names = JobFilter(experiments=usage.names, is_archived=None, limit=MAX_TOLD)
        for record in self._loop.store.jobs(names) if usage.names else ():
            self._loop.bus.publish(job_topic(record.job.name))
        return changed, usage

    def write_note(self, name: str, note: str, seen: str | None = None) -> tuple[Experiment, ExperimentUsage]:
        """Writes the note of an experiment, MLflow's; "" removes it.

        Raises NotFoundError; ConflictError with both texts if it is neither what the user saw nor what is written.
        """
        with self._notes:
            own, usage = self.named(name)
            now = own.tags.get(NOTE_TAG, "")
            if seen is not None and now not in (seen, note):
                both = Problem(f"it says now {now!r}, and the change says {note!r}", "note")
                what = f"the note of experiment {name} changed after it was read"
                raise ConflictError(what, fix="Read it again, and change what it says now.", fields=(both,))
            return self._metrics.store.tag_experiment(own.id, NOTE_TAG, note or None, self._now_ms()), usage

    def names_in_jobs(self, name: str) -> tuple[str, ...]:
        """Returns the names in jobs for the experiment with this current or earlier name."""
        if self._metrics.is_empty:
            return (name,)
        try:
            return self.named(name)[1].names or (name,)
        except NotFoundError:
            return (name,)

    def title(self, name: str) -> str:
        """Returns the current name of the experiment that jobs call by this name."""
        if self._metrics.is_empty:
            return name
        try:
            return self._metrics.store.experiment(experiment_id(name)).name
        except NotFoundError:
            return name

    def compare(self, names: Sequence[str]) -> ComparisonView:
        """Compares jobs. Raises NotFoundError; SpecError for fewer than two jobs or more than `MAX_COMPARED`."""
        _require_comparable(names)
        records = [self._loop.record(name) for name in names]
        saves = self._metrics.saves([record.job.name for record in records])
        codes = {record.job.plan.code for record in records}
        jobs = [
            self._compared(record, saves.get(record.job.name, []), has_files=1 < len(codes) <= MAX_CODES)
            for record in records
        ]
        names = uneven([one.metrics for one in jobs])[: MAX_CURVES // len(jobs)]
        curves = [{name: self._metrics.curve(one.record.job.name, name) for name in names} for one in jobs]
        highlights = self._metrics.highlights([one.record.job.name for one in jobs])
        whole = [
            replace(one, curves=own, primary=shown.primary if (shown := highlights.get(one.record.job.name)) else None)
            for one, own in zip(jobs, curves, strict=True)
        ]
        return compare(whole, self._loop.clock.now())

    def _compared(self, record: Record, saves: Sequence[Save], *, has_files: bool) -> Compared:
        job = record.job
        return Compared(
            record,
            self._loop.store.events(job.name),
            self._metrics.main_series(job.name),
            saves,
            self._metrics.params(job.name),
            self._contents_of(job),
            files=self._code_files(job) if has_files else {},
        )

    def _code_files(self, job: Job) -> dict[str, CodeFile]:
        if not job.plan.code:
            return {}
        try:
            with self._artifacts.open_snapshot(job.plan.code) as archive:
                return read_files(archive)
        except (DrumbeatError, OSError, tarfile.TarError):  # It may have been pruned. The digests show that it differs.
            return {}

    def _uses(self) -> dict[str, list[ExperimentUse]]:
        """Returns the names that jobs use, by experiment. Creates the experiments that don't exist."""
        uses: dict[str, list[ExperimentUse]] = {}
        for one in self._loop.store.experiments():
            uses.setdefault(self._ensured(one).id, []).append(one)
        return uses

    def _ensured(self, use: ExperimentUse) -> Experiment:
        try:
            return self._metrics.store.experiment(experiment_id(use.name))
        except NotFoundError:
            return self._metrics.store.ensure_experiment(use.name, int(use.first_at.timestamp() * 1000))

    def _now_ms(self) -> int:
        return int(self._loop.clock.now().timestamp() * 1000)


def _require_comparable(names: Sequence[str]) -> None:
    if len(names) > MAX_COMPARED:
        what = f"Compare takes at most {MAX_COMPARED} jobs, and these are {len(names):,}"
        raise SpecError(what, where="job", fix="Choose fewer, or filter and group the runs of their experiment.")
    if len(names) < 2:
        raise SpecError("a comparison is of two jobs or more", where="job", fix="Name another job.")


def _usage(uses: Sequence[ExperimentUse]) -> ExperimentUsage:
    latest = max((one.latest_at for one in uses), default=None)
    return ExperimentUsage(sum(one.jobs for one in uses), latest, tuple(one.name for one in uses))

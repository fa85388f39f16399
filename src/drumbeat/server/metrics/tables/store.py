"""The store of runs, points and documents. Each call is one transaction over the functions of this package."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Literal, TypeVar

from sqlalchemy import Connection, delete, func, select, text, update

from drumbeat.core.run_queries.fields import Cell
from drumbeat.core.run_queries.fields import Point as PointOfCurve
from drumbeat.model.metric_lines import Spooled
from drumbeat.model.metrics import (
    JsonObject,
    MetricRecord,
    Point,
    PrimarySeries,
    Run,
    RunCreated,
    RunStatus,
    Series,
    Source,
    run_id,
)
from drumbeat.model.primary_metrics import PrimaryMetric
from drumbeat.server.database.database import Database, parse_url
from drumbeat.server.database.upgrade import Revisions, upgrade
from drumbeat.server.metrics.metric_records import (
    Document,
    Experiment,
    FieldUse,
    HistoryPage,
    RunPage,
    RunSearch,
    Taken,
    View,
)
from drumbeat.server.metrics.tables import (
    documents,
    experiments,
    primary_series,
    read_curves,
    read_parts,
    run_search,
    run_values,
)
from drumbeat.server.metrics.tables import records as arrivals
from drumbeat.server.metrics.tables.curve_cache import CurveCache
from drumbeat.server.metrics.tables.group_writer import GroupWriter
from drumbeat.server.metrics.tables.read_parts import PartMeans
from drumbeat.server.metrics.tables.schema import HEAD, blocks, links, params, points, runs, series, sources, tags
from drumbeat.server.metrics.tables.schema import runs as run_table

# A run is removed at once, and its points later in small transactions, so that other writes needn't wait.

MAX_POINTS = 20_000
"""Maximum number of points that one transaction removes."""

_REMOVED = "removed:"
"""The prefix that, with the id of a series, replaces its run until its points have been removed."""


def remove_run(connection: Connection, run: str) -> None:
    """Removes a run, and with a job's own run everything that this job has written, except points."""
    job = connection.execute(select(runs.c.job).where(runs.c.id == run)).scalar_one_or_none()
    ids = {run}
    if job and run == run_id(job):
        ids |= set(connection.execute(select(runs.c.id).where(runs.c.job == job)).scalars())
        connection.execute(delete(sources).where(sources.c.job == job))
    for table in (params, tags, links):
        connection.execute(delete(table).where(table.c.run.in_(ids)))
    connection.execute(delete(runs).where(runs.c.id.in_(ids)))
    for number in connection.execute(select(series.c.id).where(series.c.run.in_(ids))).scalars().all():
        connection.execute(update(series).where(series.c.id == number).values(run=f"{_REMOVED}{number}"))


def remove_some_points(connection: Connection) -> bool:
    """Removes points of removed runs. Returns whether there may be more."""
    row = connection.execute(select(series.c.id).where(series.c.run.startswith(_REMOVED)).limit(1)).one_or_none()
    if row is None:
        return False
    of_series = points.c.series == row.id
    first = connection.execute(select(func.min(points.c.n)).where(of_series)).scalar_one()
    if first is not None:
        connection.execute(delete(points).where(of_series, points.c.n < first + MAX_POINTS))
        return True
    connection.execute(delete(blocks).where(blocks.c.series == row.id))
    connection.execute(delete(series).where(series.c.id == row.id))
    return True


T = TypeVar("T")

SCHEMA = "metrics"
"""PostgreSQL's schema for these tables, beside the jobs'."""

REVISIONS = Revisions(Path(__file__).parent / "migrations", HEAD)


def make_metric_store(place: str | Path) -> SqlMetricStore:
    """Returns the store at a URL or in an SQLite file, with its tables upgraded to this revision.

    In PostgreSQL the tables are in the schema `metrics`. Raises RefusedError, StorageError, VersionError.
    """
    url = parse_url(place)
    if url.get_backend_name() != "sqlite":
        _create_schema(Database(url))
    database = Database(url, schema=SCHEMA)
    try:
        upgrade(database, REVISIONS)
    except BaseException:
        database.close()
        raise
    return SqlMetricStore(database)


def _create_schema(database: Database) -> None:
    try:
        with database.write() as connection:
            named = text("SELECT 1 FROM pg_namespace WHERE nspname = :name")
            if connection.execute(named, {"name": SCHEMA}).first() is None:
                # Servers may start concurrently, so this takes a lock for the name.
                connection.execute(text("SELECT pg_advisory_xact_lock(hashtext(:name))"), {"name": SCHEMA})
                connection.execute(text(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}"))
    finally:
        database.close()


class SqlMetricStore:
    """Runs, their points and documents, in a database. Writes are durable when a call returns.

    Thread-safe; several processes may use one database. All methods raise AwayError while the database doesn't answer,
    and StorageError when it fails. Texts mustn't contain zero bytes or lone surrogates, which `metric_lines` ensures.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._writer = GroupWriter(database)
        self._curves = CurveCache()

    def close(self) -> None:
        """Commits the pending writes, and closes all connections."""
        self._writer.close()
        self._database.close()

    # --- records ---
    def take(self, source: Source, offset: int, records: Sequence[Spooled]) -> Taken:
        """Takes the records of a spool from `offset` on, in one transaction with the new offset, which it returns.

        Records before the stored offset are skipped. If `offset` is beyond it, there is a gap and nothing is taken.
        Records of unknown runs are stored, as their creation may come from another node. The caller must refuse sources
        of jobs that don't exist, because the store would accept their records.
        """
        return self._writer.run(lambda connection: arrivals.take(connection, source, offset, records))

    def taken(self, source: Source) -> int:
        """Returns the offset up to which records of a source have been taken; 0 = none have."""
        return self._read(lambda connection: arrivals.taken(connection, source))

    def write(self, records: Sequence[MetricRecord]) -> None:
        """Writes the records atomically. Raises ConflictError for a parameter that has another value already.

        A point with the same value, step and time as one of the last `RECENT_POINTS` of its series, or as another of
        these, is skipped, because clients that got no response send their points again.
        """

        def write(connection: Connection) -> None:
            for refused in arrivals.write(connection, records, is_repeatable=True):
                raise arrivals.conflict(refused)

        self._writer.run(write)

    # --- runs ---
    def ensure_run(self, run: RunCreated, experiment: str) -> Run:
        """Returns the run. Creates it and its experiment if necessary."""

        def ensure(connection: Connection) -> None:
            experiments.ensure(connection, experiment, run.start_ms)
            arrivals.write(connection, [run])

        self._writer.run(ensure)
        return self.run(run.run)

    def open_runs(self) -> list[tuple[str, str]]:
        """Returns run and job of each run of a job that isn't settled."""
        chosen = select(run_table.c.id, run_table.c.job).where(run_table.c.is_open.is_(True))
        return self._read(lambda connection: [(run, job) for run, job in connection.execute(chosen)])

    def has_outside_run(self, since_ms: int, until_ms: int) -> bool:
        """Whether a run outside of jobs is RUNNING with its start or last point between these times."""
        return self._read(lambda connection: run_search.has_outside_run(connection, since_ms, until_ms))

    def settle(self, run: str, status: RunStatus, end_ms: int) -> None:
        """Ends a job's run finally: later updates of its status have no effect.

        Runs of the same job that are still running end with it.
        """

        def settle(connection: Connection) -> None:
            job = connection.execute(select(run_table.c.job).where(run_table.c.id == run)).scalar_one_or_none()
            if not job:
                return
            nested = run_table.c.job == job, run_table.c.status.in_(("RUNNING", "SCHEDULED"))
            connection.execute(update(run_table).where(*nested).values(status=status, end_ms=end_ms))
            own = {"status": status, "end_ms": end_ms, "is_open": False, "is_settled": True}
            connection.execute(update(run_table).where(run_table.c.id == run).values(own))

        self._writer.run(settle)

    def remove_run(self, run: str) -> None:
        """Removes a run and, if it is a job's own, all runs and sources of that job. Idempotent.

        Points take space until `remove_points`.
        """
        self._writer.run(lambda connection: remove_run(connection, run))

    def remove_points(self) -> None:
        """Removes the points of removed runs, in steps that let other writes in between."""
        while self._writer.run(remove_some_points):
            pass

    def run(self, run: str) -> Run:
        """Returns one run. Raises NotFoundError."""
        return self._read(lambda connection: run_search.one(connection, run))

    def search_runs(self, search: RunSearch) -> RunPage:
        """Returns the runs that match a search.

        A comparison with a value that a run doesn't have is false, except IS NULL of a tag or a parameter. Metrics are
        compared by the last value of rank 0. Runs without a sort key come last. Raises SpecError for an unknown
        comparator, attribute or token.
        """

        def page(connection: Connection) -> RunPage:
            if self._database.is_sqlite:
                connection.execute(text("PRAGMA case_sensitive_like = ON"))
            return run_search.page(connection, search)

        return self._read(page)

    # --- values of many runs ---
    def metric_values(
        self, runs: Sequence[str], names: Collection[str], point: PointOfCurve
    ) -> dict[str, dict[str, Cell]]:
        """Returns the last, lowest or highest value of metrics of rank 0, by run and name; NaN where it is NaN."""
        return self._read(lambda connection: run_values.metric_values(connection, runs, names, point))

    def text_values(
        self, table: Literal["params", "tags"], runs: Sequence[str], names: Collection[str]
    ) -> dict[str, dict[str, Cell]]:
        """Returns parameters or tags, by run and name."""
        return self._read(lambda connection: run_values.text_values(connection, table, runs, names))

    def field_uses(self, runs: Sequence[str], limit: int) -> list[FieldUse]:
        """Returns the metrics of rank 0 except `system/…`, the parameters and the tags of runs, at most `limit` of
        each kind, those of most runs first.
        """
        return self._read(lambda connection: run_values.field_uses(connection, runs, limit))

    # --- series ---
    def series(self, run: str) -> list[Series]:
        """Returns all series of a run in the order in which their first points arrived; [] for an unknown run."""
        return self._read(lambda connection: read_curves.read_series(connection, run))

    def primaries(self, runs: Sequence[str]) -> dict[str, PrimarySeries]:
        """Returns the primary series of rank 0 of each of these runs that has one, never one of `system/…`."""
        return self._read(lambda connection: primary_series.primaries(connection, runs))

    def common_primary(self, runs: Sequence[str], logged_by: Mapping[str, int]) -> PrimaryMetric | None:
        """Returns the metric by which these runs are ranked together. logged_by: how many runs have logged each."""
        return self._read(lambda connection: primary_series.common_primary(connection, runs, logged_by))

    def means(self, run: str, names: Collection[str]) -> dict[tuple[str, int], float]:
        """Returns the mean of the finite values of each series with one of these names, by name and rank."""
        return self._read(lambda connection: read_curves.means(connection, run, names))

    def part_means(self, run: str, prefix: str, max_parts: int) -> PartMeans:
        """Returns the means of the series whose names begin with a prefix, over equally long parts of their time.

        Of long series, they are estimated from points at equal distances.
        """
        return self._read(lambda connection: read_parts.part_means(connection, run, prefix, max_parts))

    def not_finite(self, runs: Sequence[str]) -> dict[str, Point]:
        """Returns the first point of each of these runs since which a metric of rank 0, except `system/…`, is NaN or
        infinite; of several metrics, that of the first.
        """
        return self._read(lambda connection: read_curves.not_finite(connection, runs))

    def curve(self, run: str, name: str, rank: int, max_points: int) -> list[Point]:
        """Returns a thinned series with at most so many points (at least 4), in the order of arrival.

        These are logged points: the first, the last, and the lowest and highest of each of equally long parts. A part
        with only NaN is represented by its first point.
        """
        return self._read(lambda connection: read_curves.curve(connection, run, name, rank, max_points, self._curves))

    def curves(self, runs: Sequence[str], name: str, max_points: int) -> dict[str, list[Point]]:
        """Returns the curve of rank 0 of each of these runs that has logged the metric."""
        return self._read(lambda connection: read_curves.read_curves(connection, runs, name, max_points, self._curves))

    def history(self, run: str, name: str, rank: int, after: int = 0, limit: int = 25_000) -> HistoryPage:
        """Returns all points of a series by pages, in the order of arrival. after: 0 = from the first point."""
        return self._read(lambda connection: read_curves.history(connection, (run, name, rank), after, limit))

    # --- experiments ---
    def create_experiment(self, name: str, tags: Mapping[str, str], at_ms: int) -> Experiment:
        """Creates an experiment. Raises ConflictError if an experiment has, or had before, this name."""
        return self._writer.run(lambda connection: experiments.create(connection, name, tags, at_ms))

    def ensure_experiment(self, name: str, at_ms: int) -> Experiment:
        """Returns the experiment with this current or earlier name. Creates it if necessary."""
        return self._writer.run(lambda connection: experiments.ensure(connection, name, at_ms))

    def experiment(self, id: str) -> Experiment:
        """Returns one experiment. Raises NotFoundError."""
        return self._read(lambda connection: experiments.by_id(connection, id))

    def experiment_named(self, name: str) -> Experiment:
        """Returns the experiment with this name. Raises NotFoundError."""
        return self._read(lambda connection: experiments.by_name(connection, name))

    def experiments(self, view: View = "active") -> list[Experiment]:
        """Returns experiments, the last created first."""
        return self._read(lambda connection: experiments.listed(connection, view))

    def rename_experiment(self, id: str, name: str, at_ms: int) -> Experiment:
        """Gives an experiment another name.

        Its id stays, and the ids that nodes compute from its earlier and later names mean this experiment as well.
        Raises NotFoundError, and ConflictError for a name that another experiment has or had.
        """
        return self._writer.run(lambda connection: experiments.rename(connection, id, name, at_ms))

    def archive_experiment(self, id: str, at_ms: int, *, is_archived: bool = True) -> Experiment:
        """Archives an experiment with its runs, or restores it (`is_archived` False). Raises NotFoundError."""
        return self._writer.run(lambda connection: experiments.archive(connection, id, at_ms, is_archived=is_archived))

    def tag_experiment(self, id: str, key: str, value: str | None, at_ms: int) -> Experiment:
        """Sets a tag of an experiment, or removes it (None). Raises NotFoundError."""
        return self._writer.run(lambda connection: experiments.tag(connection, id, (key, value), at_ms))

    def remove_experiment(self, id: str) -> None:
        """Removes an experiment that has no runs. Raises NotFoundError, and ConflictError if it has runs."""
        self._writer.run(lambda connection: experiments.remove(connection, id))

    # --- documents ---
    def add_document(self, document: Document) -> Document:
        """Adds a document. Raises ConflictError if kind, name and version exist.

        Returns it with its version, which the store assigns for `NEXT_VERSION`.
        """
        return self._writer.run(lambda connection: documents.add(connection, document))

    def change_document(
        self, kind: str, name: str, version: int, change: Callable[[JsonObject], JsonObject]
    ) -> Document:
        """Replaces a document's body by the result of `change`, which must be pure. Raises NotFoundError."""
        return self._writer.run(lambda connection: documents.change(connection, (kind, name, version), change))

    def remove_documents(self, kind: str, name: str, version: int | None = None) -> int:
        """Removes one version, or all (None). Returns how many there were."""
        return self._writer.run(lambda connection: documents.remove(connection, kind, name, version))

    def rename_documents(self, kinds: Collection[str], name: str, new_name: str) -> None:
        """Renames all documents of these kinds with a name, atomically.

        Raises ConflictError if one of the kinds has a document of the new name.
        """
        self._writer.run(lambda connection: documents.rename(connection, kinds, name, new_name))

    def document(self, kind: str, name: str, version: int = 0) -> Document:
        """Returns one document. Raises NotFoundError."""
        return self._read(lambda connection: documents.one(connection, kind, name, version))

    def documents(self, kind: str, name: str | None = None) -> list[Document]:
        """Returns the documents of a kind, or of one name of it, by name and version."""
        return self._read(lambda connection: documents.listed(connection, kind, name))

    def _read(self, read: Callable[[Connection], T]) -> T:
        with self._database.read() as connection:
            return read(connection)

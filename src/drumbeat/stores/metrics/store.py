"""The `MetricStore` port: each call is one transaction, made of the pieces in the modules beside this one."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from sqlalchemy import Connection, select, text, update

from drumbeat.ports.metrics import Document, Experiment, HistoryPage, RunPage, RunSearch, Taken, View
from drumbeat.protocol.metric_lines import Spooled
from drumbeat.protocol.metrics import JsonObject, MetricRecord, Point, Run, RunCreated, RunStatus, Series, Source
from drumbeat.stores.metrics import documents, experiments, read_curves, removals, run_search
from drumbeat.stores.metrics import records as arrivals
from drumbeat.stores.metrics.curve_cache import CurveCache
from drumbeat.stores.metrics.group_writer import GroupWriter
from drumbeat.stores.metrics.schema import HEAD
from drumbeat.stores.metrics.schema import runs as run_table
from drumbeat.stores.sql.database import Database, parse_url
from drumbeat.stores.sql.upgrade import Revisions, upgrade

T = TypeVar("T")

SCHEMA = "metrics"
"""PostgreSQL's schema for these tables, beside the jobs'."""

REVISIONS = Revisions(Path(__file__).parent / "migrations", HEAD)


def make_metric_store(place: str | Path) -> SqlMetricStore:
    """Returns the store at a URL, or in an SQLite file at a path, with its tables of this revision.

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
                # Servers may start together: this lock is of the name's own.
                connection.execute(text("SELECT pg_advisory_xact_lock(hashtext(:name))"), {"name": SCHEMA})
                connection.execute(text(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}"))
    finally:
        database.close()


class SqlMetricStore:
    """The `MetricStore` port over a database. Safe from any thread; several processes may be over one database."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._writer = GroupWriter(database)
        self._curves = CurveCache()

    def close(self) -> None:
        """Commits what was handed over and closes every connection."""
        self._writer.close()
        self._database.close()

    # --- records ---
    def take(self, source: Source, offset: int, records: Sequence[Spooled]) -> Taken:
        return self._writer.run(lambda connection: arrivals.take(connection, source, offset, records))

    def taken(self, source: Source) -> int:
        return self._read(lambda connection: arrivals.taken(connection, source))

    def write(self, records: Sequence[MetricRecord]) -> None:
        def write(connection: Connection) -> None:
            for refused in arrivals.write(connection, records, is_repeatable=True):
                raise arrivals.conflict(refused)

        self._writer.run(write)

    # --- runs ---
    def ensure_run(self, run: RunCreated, experiment: str) -> Run:
        def ensure(connection: Connection) -> None:
            experiments.ensure(connection, experiment, run.start_ms)
            arrivals.write(connection, [run])

        self._writer.run(ensure)
        return self.run(run.run)

    def open_runs(self) -> list[tuple[str, str]]:
        chosen = select(run_table.c.id, run_table.c.job).where(run_table.c.is_open.is_(True))
        return self._read(lambda connection: [(run, job) for run, job in connection.execute(chosen)])

    def has_outside_run(self, since_ms: int, until_ms: int) -> bool:
        return self._read(lambda connection: run_search.has_outside_run(connection, since_ms, until_ms))

    def settle(self, run: str, status: RunStatus, end_ms: int) -> None:
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
        self._writer.run(lambda connection: removals.remove_run(connection, run))

    def remove_points(self) -> None:
        while self._writer.run(removals.remove_some_points):
            pass

    def run(self, run: str) -> Run:
        return self._read(lambda connection: run_search.one(connection, run))

    def search_runs(self, search: RunSearch) -> RunPage:
        def page(connection: Connection) -> RunPage:
            if self._database.is_sqlite:
                connection.execute(text("PRAGMA case_sensitive_like = ON"))
            return run_search.page(connection, search)

        return self._read(page)

    # --- series ---
    def series(self, run: str) -> list[Series]:
        return self._read(lambda connection: read_curves.series_of(connection, run))

    def primaries(self, runs: Sequence[str]) -> dict[str, Series]:
        return self._read(lambda connection: read_curves.primaries(connection, runs))

    def curve(self, run: str, name: str, rank: int, max_points: int) -> list[Point]:
        return self._read(lambda connection: read_curves.curve(connection, run, name, rank, max_points, self._curves))

    def curves(self, runs: Sequence[str], name: str, max_points: int) -> dict[str, list[Point]]:
        return self._read(lambda connection: read_curves.curves_of(connection, runs, name, max_points, self._curves))

    def history(self, run: str, name: str, rank: int, after: int = 0, limit: int = 25_000) -> HistoryPage:
        return self._read(lambda connection: read_curves.history(connection, (run, name, rank), after, limit))

    # --- experiments ---
    def create_experiment(self, name: str, tags: Mapping[str, str], at_ms: int) -> Experiment:
        return self._writer.run(lambda connection: experiments.create(connection, name, tags, at_ms))

    def ensure_experiment(self, name: str, at_ms: int) -> Experiment:
        return self._writer.run(lambda connection: experiments.ensure(connection, name, at_ms))

    def experiment(self, id: str) -> Experiment:
        return self._read(lambda connection: experiments.by_id(connection, id))

    def experiment_named(self, name: str) -> Experiment:
        return self._read(lambda connection: experiments.by_name(connection, name))

    def experiments(self, view: View = "active") -> list[Experiment]:
        return self._read(lambda connection: experiments.listed(connection, view))

    def rename_experiment(self, id: str, name: str, at_ms: int) -> Experiment:
        return self._writer.run(lambda connection: experiments.rename(connection, id, name, at_ms))

    def archive_experiment(self, id: str, at_ms: int, *, is_archived: bool = True) -> Experiment:
        return self._writer.run(lambda connection: experiments.archive(connection, id, at_ms, is_archived=is_archived))

    def tag_experiment(self, id: str, key: str, value: str | None, at_ms: int) -> Experiment:
        return self._writer.run(lambda connection: experiments.tag(connection, id, (key, value), at_ms))

    def remove_experiment(self, id: str) -> None:
        self._writer.run(lambda connection: experiments.remove(connection, id))

    # --- documents ---
    def add_document(self, document: Document) -> Document:
        return self._writer.run(lambda connection: documents.add(connection, document))

    def change_document(
        self, kind: str, name: str, version: int, change: Callable[[JsonObject], JsonObject]
    ) -> Document:
        return self._writer.run(lambda connection: documents.change(connection, (kind, name, version), change))

    def remove_documents(self, kind: str, name: str, version: int | None = None) -> int:
        return self._writer.run(lambda connection: documents.remove(connection, kind, name, version))

    def rename_documents(self, kinds: Collection[str], name: str, new_name: str) -> None:
        self._writer.run(lambda connection: documents.rename(connection, kinds, name, new_name))

    def document(self, kind: str, name: str, version: int = 0) -> Document:
        return self._read(lambda connection: documents.one(connection, kind, name, version))

    def documents(self, kind: str, name: str | None = None) -> list[Document]:
        return self._read(lambda connection: documents.listed(connection, kind, name))

    def _read(self, read: Callable[[Connection], T]) -> T:
        with self._database.read() as connection:
            return read(connection)

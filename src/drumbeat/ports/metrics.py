"""Where metrics, parameters and tags of runs are kept, and the documents of MLflow's model registry."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from drumbeat.protocol.metric_lines import Spooled
from drumbeat.protocol.metrics import JsonObject, MetricRecord, Point, Run, RunCreated, RunStatus, Series, Source
from drumbeat.protocol.mlflow_writes import MAX_METRICS_IN_BATCH

Comparison = Mapping[str, Any]
"""One condition of a search as mlflow's `SearchUtils.parse_search_filter` returns it: type, key, comparator, value."""

Order = tuple[str, str, bool]
"""What a search sorts by: type (`attribute`, `metric`, `parameter`, `tag`), key, whether ascending."""

View = Literal["active", "deleted", "all"]


@dataclass(frozen=True)
class Experiment:
    """A group of runs."""

    id: str
    name: str
    created_ms: int
    updated_ms: int
    is_archived: bool = False
    """Archived here is what MLflow calls deleted: hidden from lists until it is restored."""
    tags: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True)
class RunPage:
    """A page of runs. token: asks for the next page; "" = this is the last."""

    runs: tuple[Run, ...]
    token: str = ""


@dataclass(frozen=True)
class RunSearch:
    """Which runs to return. Every comparison must hold."""

    experiments: tuple[str, ...] = ()
    """Ids of experiments; empty = all."""
    comparisons: tuple[Comparison, ...] = ()
    orders: tuple[Order, ...] = ()
    """After these the latest start comes first, then the lower id."""
    view: View = "active"
    limit: int = 1000
    token: str = ""


@dataclass(frozen=True)
class HistoryPage:
    """Points of one series in the order of arrival."""

    points: tuple[Point, ...]
    after: int
    """What `history` is to be called with to go on: for the next page, or for points that arrive later."""
    is_last: bool
    """Whether these are the last points that have arrived so far."""


@dataclass(frozen=True)
class RefusedParam:
    """A parameter that was logged with another value than the one that is kept."""

    run: str
    key: str
    kept: str
    refused: str


@dataclass(frozen=True)
class Taken:
    """How far the records of a source have been taken, and which parameters of these were not."""

    offset: int
    refused: tuple[RefusedParam, ...] = ()


RECENT_POINTS = 2 * MAX_METRICS_IN_BATCH
"""Of a series, with which those are compared that are written: a batch is known again behind another one."""

NEXT_VERSION = -1
"""As the version of a new document: the number after the highest that its name ever had, counted from 1."""


@dataclass(frozen=True)
class Document:
    """One JSON document: a registered model, a version of it, a logged model."""

    kind: str
    name: str
    version: int
    """0 where this kind has no versions."""
    body: JsonObject


class MetricStore(Protocol):
    """Runs, their points and documents. Thread-safe; what a call has returned from is durable.

    All methods raise AwayError while the database doesn't answer, and StorageError when it fails. Texts have no zero
    bytes and no halves of surrogate pairs: records read by `metric_lines` never do.
    """

    def close(self) -> None:
        """Ends the use of the store."""
        ...

    def take(self, source: Source, offset: int, records: Sequence[Spooled]) -> Taken:
        """Takes the records of a spool from `offset` on, in one transaction with the offset that it returns.

        Records that end at or before what was taken earlier are skipped. If `offset` is beyond that, there is a gap
        and nothing is taken. Records of unknown runs are kept, as their creation may come from another node. The caller
        refuses sources of jobs that don't exist: the store would keep their records.
        """
        ...

    def taken(self, source: Source) -> int:
        """Returns how far the records of a source have been taken; 0 = none have."""
        ...

    def write(self, records: Sequence[MetricRecord]) -> None:
        """Keeps all the records, or none: raises ConflictError for a parameter that has another value already.

        A point that is the same in value, step and time as one of the last `RECENT_POINTS` of its series, or as another
        of these, is left out: clients that got no answer send their points again.
        """
        ...

    def ensure_run(self, run: RunCreated, experiment: str) -> Run:
        """Returns the run, which is created if it doesn't exist, as is the experiment (`ensure_experiment`)."""
        ...

    def open_runs(self) -> list[tuple[str, str]]:
        """Returns run and job of each run of a job that isn't settled."""
        ...

    def has_outside_run(self, since_ms: int, until_ms: int) -> bool:
        """Returns whether a run outside of jobs is RUNNING whose start or last point is between these times."""
        ...

    def settle(self, run: str, status: RunStatus, end_ms: int) -> None:
        """Ends a job's run for good: updates of its status that come later change nothing.

        Runs of the same job that are still running end with it.
        """
        ...

    def remove_run(self, run: str) -> None:
        """Removes a run with all that is kept of it and, if it is a job's, all runs and sources of that job.

        A run that doesn't exist is removed already. Points take space until `remove_points`.
        """
        ...

    def remove_points(self) -> None:
        """Removes the points of runs that were removed, in steps between which other writes are made."""
        ...

    def run(self, run: str) -> Run:
        """Returns one run. Raises NotFoundError."""
        ...

    def search_runs(self, search: RunSearch) -> RunPage:
        """Returns the runs that the search asks for.

        A comparison with something that a run doesn't have is false, but for IS NULL of a tag or a parameter. Metrics
        are compared by their last value of rank 0. In an order by something that a run doesn't have, that run comes
        last. Raises SpecError for a comparator, an attribute or a token that doesn't exist.
        """
        ...

    def series(self, run: str) -> list[Series]:
        """Returns all series of a run in the order in which their first points arrived; [] for an unknown run."""
        ...

    def primaries(self, runs: Sequence[str]) -> dict[str, Series]:
        """Returns the first series of rank 0 of each of these runs that has one, but for those named `system/…`."""
        ...

    def curve(self, run: str, name: str, rank: int, max_points: int) -> list[Point]:
        """Returns at most so many points of a series (at least 4) in the order of arrival.

        All of them are points that were logged. Kept are the first, the last, and of each of equally long parts the
        lowest and the highest. A part in which no point is a number is represented by its first point.
        """
        ...

    def curves(self, runs: Sequence[str], name: str, max_points: int) -> dict[str, list[Point]]:
        """Returns the curve of rank 0 of each of these runs that has logged the metric."""
        ...

    def history(self, run: str, name: str, rank: int, after: int = 0, limit: int = 25_000) -> HistoryPage:
        """Returns points of a series, whole, in the order of arrival. after: 0 = from the first point on."""
        ...

    def create_experiment(self, name: str, tags: Mapping[str, str], at_ms: int) -> Experiment:
        """Creates an experiment. Raises ConflictError if an experiment has, or had before, this name."""
        ...

    def ensure_experiment(self, name: str, at_ms: int) -> Experiment:
        """Returns the experiment that has, or had before it was renamed, this name; creates it if it doesn't exist."""
        ...

    def experiment(self, id: str) -> Experiment:
        """Returns one experiment. Raises NotFoundError."""
        ...

    def experiment_named(self, name: str) -> Experiment:
        """Returns the experiment with this name. Raises NotFoundError."""
        ...

    def experiments(self, view: View = "active") -> list[Experiment]:
        """Returns experiments, the last created first."""
        ...

    def rename_experiment(self, id: str, name: str, at_ms: int) -> Experiment:
        """Gives an experiment another name.

        Its id stays, and the ids that nodes compute from its earlier and later names mean this experiment as well.
        Raises NotFoundError, and ConflictError for a name that another experiment has or had.
        """
        ...

    def archive_experiment(self, id: str, at_ms: int, *, is_archived: bool = True) -> Experiment:
        """Hides an experiment with its runs, or with `is_archived` False shows them again. Raises NotFoundError."""
        ...

    def tag_experiment(self, id: str, key: str, value: str | None, at_ms: int) -> Experiment:
        """Sets a tag of an experiment; None removes it. Raises NotFoundError."""
        ...

    def remove_experiment(self, id: str) -> None:
        """Removes an experiment that has no runs. Raises NotFoundError, and ConflictError if it has runs."""
        ...

    def add_document(self, document: Document) -> Document:
        """Keeps a new document. Raises ConflictError if kind, name and version are in use.

        Returns it with its version, which the store counts where it is `NEXT_VERSION`.
        """
        ...

    def change_document(
        self, kind: str, name: str, version: int, change: Callable[[JsonObject], JsonObject]
    ) -> Document:
        """Replaces a document's body by what `change`, which must be pure, makes of it. Raises NotFoundError."""
        ...

    def remove_documents(self, kind: str, name: str, version: int | None = None) -> int:
        """Removes one version, or with None all; returns how many there were."""
        ...

    def rename_documents(self, kinds: Collection[str], name: str, new_name: str) -> None:
        """Gives all documents of these kinds and a name another name, at once.

        Raises ConflictError if one of the kinds has a document of the new name.
        """
        ...

    def document(self, kind: str, name: str, version: int = 0) -> Document:
        """Returns one document. Raises NotFoundError."""
        ...

    def documents(self, kind: str, name: str | None = None) -> list[Document]:
        """Returns the documents of a kind, or of one name of it, by name and version."""
        ...

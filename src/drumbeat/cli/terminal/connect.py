"""The seam to the server: what the commands ask of it, and the one place where a client is made."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from drumbeat.cli.terminal.people_requests import PeopleServer
from drumbeat.cli.terminal.session_requests import SessionServer

if TYPE_CHECKING:
    from drumbeat.client.transfer_result import Transfer
    from drumbeat.protocol.api.components import ComponentView
    from drumbeat.protocol.api.computes import AliasView, ComputeView
    from drumbeat.protocol.api.data import DatastoreView, DataView, EntryView
    from drumbeat.protocol.api.environments import EnvironmentView, RegistryView
    from drumbeat.protocol.api.jobs import Event, FileView, JobView, JobWithStory, LogPiece, PreviewView
    from drumbeat.protocol.api.ledger import LedgerView
    from drumbeat.protocol.api.metrics import ComparisonView, CurveView, ExperimentView, MetricsView, PointView
    from drumbeat.protocol.api.notices import NoticeTargetView
    from drumbeat.protocol.api.pipelines import PipelineView
    from drumbeat.protocol.api.server import ServerView
    from drumbeat.protocol.api.space import Freed, Usage
    from drumbeat.protocol.api.stacks import NodeStacks
    from drumbeat.protocol.api.sweeps import SweepView, TrialView


class Server(PeopleServer, SessionServer, Protocol):
    """The calls of `drumbeat.Client` that the terminal uses. Refusals are `drumbeat.protocol.errors`."""

    def plan(self, job: Path | dict[str, object], *, sets: Sequence[str] = (), name: str | None = None) -> PreviewView:
        """What the job in a file or a mapping would run."""
        ...

    def submit(self, job: Path | dict[str, object], *, sets: Sequence[str] = (), name: str | None = None) -> JobView:
        """The job in a file or a mapping, taken in by the server."""
        ...

    def get(self, name: str) -> JobWithStory:
        """One job, with its story. Raises NotFoundError."""
        ...

    def list(
        self,
        *,
        state: str | None = None,
        experiment: str | None = None,
        archived: bool = False,
        limit: int = 100,
        parent: str | None = None,
        person: str | None = None,
    ) -> list[JobView]:
        """Jobs, newest first. archived: these too. parent: only the trials or steps of this job; "" = no such ones.

        person: only this person's.
        """
        ...

    def stacks(self, job: str, rank: int | None = None, *, native: bool = False) -> list[NodeStacks]:
        """What each rank of a running job does now, with its stacks. Raises NotFoundError."""
        ...

    def sweep(self, name: str) -> SweepView:
        """Returns a sweep with its trials. Raises NotFoundError."""
        ...

    def pipeline(self, name: str) -> PipelineView:
        """Returns a pipeline with its steps. Raises NotFoundError."""
        ...

    def best(self, name: str) -> TrialView:
        """Returns the best trial of a sweep. Raises NotFoundError while there is none."""
        ...

    def source_of_files(self, name: str) -> str:
        """Returns the job whose files are meant: the best trial for a sweep, else the job itself."""
        ...

    def metrics(self, name: str, *, rank: int | None = None) -> MetricsView:
        """Returns all metrics of a job. rank: only of this rank."""
        ...

    def log_artifact(self, name: str, path: str, content: bytes) -> None:
        """Writes a file among the artifacts of a job's run."""
        ...

    def curves(
        self, name: str, metrics: Sequence[str] = (), *, rank: int | None = None, max_points: int = 1000
    ) -> list[CurveView]:
        """Returns curves of at most so many points."""
        ...

    def points(self, name: str, metric: str, *, rank: int = 0) -> Iterator[PointView]:
        """Yields all points of a metric of one rank."""
        ...

    def compare(self, *names: str) -> ComparisonView:
        """Returns what differs between jobs, and what came of them."""
        ...

    def ledger(self, *names: str, by: str = "job", since: datetime | None = None) -> LedgerView:
        """Returns where the wall time of jobs went. Raises NotFoundError."""
        ...

    def experiments(self, *, archived: bool = False) -> list[ExperimentView]:
        """Returns experiments, the last created first. archived: these too."""
        ...

    def experiment(self, name: str) -> ExperimentView:
        """Returns the experiment that has, or had before, this name. Raises NotFoundError."""
        ...

    def rename_experiment(self, name: str, to: str) -> ExperimentView:
        """Gives an experiment another name. Raises NotFoundError, ConflictError."""
        ...

    def archive_experiment(self, name: str) -> ExperimentView:
        """Hides an experiment. Raises NotFoundError."""
        ...

    def restore_experiment(self, name: str) -> ExperimentView:
        """Shows an archived experiment again. Raises NotFoundError."""
        ...

    def cancel(self, name: str, *, discard: bool = False) -> JobView:
        """Asks the job to stop. Raises ConflictError when it has ended."""
        ...

    def wait(self, name: str, timeout_s: float | None = None) -> JobView | None:
        """The job once it has ended; None when the time is up first."""
        ...

    def delete(self, name: str) -> Freed:
        """Deletes a job that has ended. Idempotent. Raises NotFoundError, ConflictError."""
        ...

    def prune(self, older_than: timedelta, *, keep_outputs: bool = False, dry_run: bool = False) -> Freed:
        """Deletes what is old and what nothing needs."""
        ...

    def usage(self) -> Usage:
        """What takes space, the biggest first."""
        ...

    def set_retention(self, retain: timedelta | None) -> None:
        """Sets after how long the server deletes jobs; None = never."""
        ...

    def archive(self, name: str) -> object:
        """Hides a job from lists."""
        ...

    def restore(self, name: str) -> object:
        """Shows it again."""
        ...

    def page_link(self) -> str:
        """A link that opens the server's web page once."""
        ...

    def logs(self, name: str) -> Iterator[LogPiece]:
        """What there is of the logs, in the order of its arrival."""
        ...

    def stream(self, name: str, *, away: threading.Event) -> Iterator[Event]:
        """Story, state and logs from the beginning, as they happen; the last event is `End`. away: set while no server
        answers.
        """
        ...

    def files(self, name: str) -> list[FileView]:
        """The files of a job."""
        ...

    def fetch(self, name: str, path: str, to: Path, seen: Callable[[int], None]) -> None:
        """Brings one file, whole or not at all; tells how many bytes have come each time some have."""
        ...

    def aliases(self) -> list[AliasView]:
        """Every alias."""
        ...

    def set_alias(self, kind: str, name: str, target: str | None) -> None:
        """Sets an alias, or removes it (None)."""
        ...

    def computes(self) -> list[ComputeView]:
        """The computes."""
        ...

    def compute(self, name: str) -> ComputeView:
        """One of them. Raises NotFoundError."""
        ...

    def create_compute(self, compute: Path | dict[str, object], *, sets: Sequence[str] = ()) -> ComputeView:
        """The compute in a file or a mapping, as the server has made it. Raises SpecError, ConflictError."""
        ...

    def scale_compute(
        self,
        name: str,
        *,
        min_instances: int | None = None,
        max_instances: int | None = None,
        idle_time_before_scale_down: float | None = None,
    ) -> ComputeView:
        """Changes how many machines it has. Raises SpecError, RefusedError."""
        ...

    def delete_compute(self, name: str) -> None:
        """Deletes it. Raises ConflictError while jobs use it."""
        ...

    def components(self, name: str | None = None) -> list[ComponentView]:
        """Every version of every registered component, or of one, newest first."""
        ...

    def component(self, name: str, version: str = "") -> ComponentView:
        """One version, "" = the newest. Raises NotFoundError."""
        ...

    def create_component(self, component: Path, *, sets: Sequence[str] = ()) -> ComponentView:
        """The component in a file, as it is registered now. Raises SpecError, ConflictError."""
        ...

    def delete_component(self, name: str, version: str) -> None:
        """Deletes a version. Raises NotFoundError."""
        ...

    def environments(self, name: str | None = None, *, curated: bool = False) -> list[EnvironmentView]:
        """Those that people made, or of one name, newest first; or those that drumbeat brings."""
        ...

    def environment(self, name: str, version: str = "") -> EnvironmentView:
        """One version, "" = the newest. Raises NotFoundError."""
        ...

    def create_environment(self, environment: Path | dict[str, object], *, sets: Sequence[str] = ()) -> EnvironmentView:
        """The environment in a file or a mapping, as it is kept now. Raises SpecError, ConflictError."""
        ...

    def delete_environment(self, name: str, version: str) -> None:
        """Forgets a version. Raises NotFoundError."""
        ...

    def datastores(self) -> list[DatastoreView]:
        """The datastores."""
        ...

    def datastore(self, name: str) -> DatastoreView:
        """One of them. Raises NotFoundError."""
        ...

    def create_datastore(self, datastore: Path, *, sets: Sequence[str] = (), check: bool = True) -> DatastoreView:
        """The datastore in a file, as the server keeps it. Raises SpecError, and what the store says."""
        ...

    def delete_datastore(self, name: str) -> None:
        """Forgets it."""
        ...

    def registries(self) -> list[RegistryView]:
        """The registries of images."""
        ...

    def registry(self, name: str) -> RegistryView:
        """One of them. Raises NotFoundError."""
        ...

    def create_registry(self, registry: Path, *, sets: Sequence[str] = ()) -> RegistryView:
        """The registry in a file, as the server keeps it. Raises SpecError."""
        ...

    def delete_registry(self, name: str) -> None:
        """Forgets it."""
        ...

    def notice_targets(self) -> list[NoticeTargetView]:
        """Returns where the server reports the ends of jobs."""
        ...

    def notice_target(self, name: str) -> NoticeTargetView:
        """Returns one of them. Raises NotFoundError."""
        ...

    def create_notice_target(self, target: Path, *, sets: Sequence[str] = ()) -> NoticeTargetView:
        """Makes a notice target, or replaces the one of its name. Raises SpecError."""
        ...

    def delete_notice_target(self, name: str) -> None:
        """Forgets a notice target. Raises NotFoundError."""
        ...

    def test_notice_target(self, name: str) -> NoticeTargetView:
        """Delivers a test notice. Raises NotFoundError, UnreachableError, RefusedError."""
        ...

    def data(self, name: str | None = None) -> list[DataView]:
        """The newest version of each name, or all versions of one."""
        ...

    def get_data(self, name: str, version: str = "") -> DataView:
        """One version, "" = the newest. Raises NotFoundError."""
        ...

    def create_data(
        self,
        data: Path | dict[str, str],
        *,
        sets: Sequence[str] = (),
        seen: Callable[[int], None],
        told: Callable[[str], None],
    ) -> DataView:
        """The data in a file or a mapping, uploaded if it lies here, and registered."""
        ...

    def delete_data(self, name: str, version: str) -> None:
        """Forgets a version."""
        ...

    def entries(self, uri: str) -> list[EntryView]:
        """What lies directly at an address."""
        ...

    def upload_data(
        self, local: Path, uri: str, *, seen: Callable[[int], None], told: Callable[[str], None]
    ) -> Transfer:
        """Copies a folder or a file into a folder of a store."""
        ...

    def download_data(self, uri: str, to: Path, *, seen: Callable[[int], None]) -> Transfer:
        """Copies what lies at an address into a folder here."""
        ...

    def status(self) -> ServerView:
        """Who answers, and how it is."""
        ...

    def set_mlflow_server(self, url: str | None) -> None:
        """Names the MLflow server that runs are copied to; None = none."""
        ...

    def set_idle_stop(self, after: timedelta | None) -> None:
        """Sets after how long with nothing to do the running server stops; None = never."""
        ...

    def stop(self, *, force: bool = False) -> None:
        """Ends the server."""
        ...


@dataclass(frozen=True)
class Wish:
    """How to come to a server. idle_stop_s: for one that is started now; None = as configured."""

    autostart: bool = True
    idle_stop_s: float | None = None


OPEN = ExitStack()
"""The connections of the present command; closed at its end."""


def _make_client(wish: Wish) -> Server:
    from drumbeat.client import Client

    client = Client(autostart=wish.autostart, idle_stop_s=wish.idle_stop_s)
    OPEN.callback(client.close)
    return client


MAKER: ContextVar[Callable[[Wish], Server]] = ContextVar("maker", default=_make_client)
"""Makes the client; a test sets another one."""


def connect(*, autostart: bool = True, idle_stop_s: float | None = None) -> Server:
    """A client of this user's server, which is started if need be."""
    return MAKER.get()(Wish(autostart, idle_stop_s))

"""`Client`: all calls of a server's API."""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from drumbeat.client import job_downloads, job_events, job_upload, partial_file_names
from drumbeat.client.calls.azure import AzureCalls
from drumbeat.client.calls.computes import ComputeCalls
from drumbeat.client.calls.data import DataCalls
from drumbeat.client.calls.earlier_jobs import EarlierJobCalls
from drumbeat.client.calls.endpoints import EndpointCalls
from drumbeat.client.calls.metrics import MetricCalls
from drumbeat.client.calls.models import ModelCalls
from drumbeat.client.calls.resources import ResourceCalls
from drumbeat.client.calls.running_jobs import RunningJobCalls
from drumbeat.client.calls.schedules import ScheduleCalls
from drumbeat.client.calls.users import UserCalls
from drumbeat.client.connection import Connection, part
from drumbeat.client.discovery import locate
from drumbeat.client.job_request import build_request
from drumbeat.client.responses import view, views
from drumbeat.model import wire
from drumbeat.model.api.jobs import End, Event, EventView, FileView, JobView, JobWithEvents, LogPiece, PreviewView
from drumbeat.model.api.page import PageLinkView
from drumbeat.model.api.pipelines import PipelineView
from drumbeat.model.api.requests import MAX_BATCH, JobBatch, JobChange, Labels
from drumbeat.model.api.server import ServerView
from drumbeat.model.api.space import Freed, Usage
from drumbeat.model.api.sweeps import SweepView, TrialView
from drumbeat.model.errors import NotFoundError
from drumbeat.model.states import JobKind

if TYPE_CHECKING:
    from drumbeat.client.job_upload import GivenJob

T = TypeVar("T")

PAGE = 256 << 10
"""Bytes of logs in one answer, six times as much as JSON where they are binary."""


class Client(
    ComputeCalls,
    DataCalls,
    EarlierJobCalls,
    MetricCalls,
    UserCalls,
    AzureCalls,
    ResourceCalls,
    ModelCalls,
    EndpointCalls,
    RunningJobCalls,
    ScheduleCalls,
):  # fmt: skip
    """A server's jobs. Connects on first use, and starts this user's server when none runs.

    home: the server's home folder; None = `$DRUMBEAT_HOME`, else this user's. url, token: of a server elsewhere, or
    the URLs of all servers over its database, separated by commas: calls go to the active one. None =
    `$DRUMBEAT_SERVER`, `$DRUMBEAT_TOKEN`, else those in the home folder. idle_stop_s: for a server that is started.
    Everything that is refused or fails is an error of `drumbeat.model.errors`. For one thread at a time; a stream
    may be read in another.
    """

    def __init__(
        self,
        home: str | Path | None = None,
        url: str | None = None,
        token: str | None = None,
        *,
        autostart: bool = True,
        idle_stop_s: float | None = None,
    ) -> None:
        where = locate(home, url, token, os.environ)
        self.connection = Connection(where, is_starting=autostart, idle_stop_s=idle_stop_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connection; the next call opens another."""
        self.connection.close()

    # --- sending ----------------------------------------------------------------------------------------------
    def submit(self, job: GivenJob, *, sets: Sequence[str] = (), name: str | None = None) -> JobView:
        """Sends a job: the path of a file, or a job made in Python. Once this returns, it is durable.

        sets: `key.path=value`, changed in the file before it is read. Local paths count from the file's folder, or from
        the current one where no file is given; it names the experiment, too. Raises SpecError, RefusedError,
        ConflictError (the name is taken).
        """
        return view(JobView, self._post("/jobs", job, job_upload.Given(sets, name), is_sending=True))

    def submit_all(self, jobs: Iterable[GivenJob], *, sets: Sequence[str] = ()) -> list[JobView]:
        """Sends many jobs, up to 500 in one request, each of which is durable as a whole or not at all.

        Several times as many a second as by `submit`. Raises what that raises, and says for which job of its request.
        """
        every = [job_upload.written(job, job_upload.Given(sets)) for job in jobs]
        sent: list[JobView] = []
        for start in range(0, len(every), MAX_BATCH):
            some = every[start : start + MAX_BATCH]
            batch = JobBatch(tuple(build_request(one, self.connection, is_sending=True) for one in some))
            sent += views(JobView, self.connection.call("POST", "/job-batches", json=wire.to_wire(batch)))
        return sent

    def plan(self, job: GivenJob, *, sets: Sequence[str] = (), name: str | None = None) -> PreviewView:
        """Returns what `submit` would run; nothing is started, sent or written."""
        return view(PreviewView, self._post("/plan", job, job_upload.Given(sets, name), is_sending=False))

    def _post(self, path: str, job: GivenJob, given: job_upload.Given, *, is_sending: bool) -> Any:
        # The file is checked first: an invalid one starts no server.
        written = job_upload.written(job, given)
        request = build_request(written, self.connection, is_sending=is_sending)
        return self.connection.call("POST", path, json=wire.to_wire(request))

    # --- looking ----------------------------------------------------------------------------------------------
    def get(self, name: str) -> JobWithEvents:
        """One job, with its story. Raises NotFoundError."""
        return view(JobWithEvents, self.connection.call("GET", f"/jobs/{part(name)}"))

    def page_link(self, job: str = "") -> str:
        """A link that opens the server's web page once, within ten minutes. job: whose screen it opens."""
        link = view(PageLinkView, self.connection.call("POST", "/page/links"))
        to = f"?to={part(_page_path(job))}" if job else ""
        return f"{self.connection.line.url.rstrip('/')}{link.path}{to}"

    def page_address(self, job: str) -> str:
        """The address of a job on the server's web page, for a browser with a session."""
        return f"{self.connection.line.url.rstrip('/')}{_page_path(job)}"

    def list(  # noqa: PLR0913 - each condition is a word of its own
        self,
        *,
        state: str | None = None,
        experiment: str | None = None,
        archived: bool = False,
        limit: int = 100,
        parent: str | None = None,
        text: str = "",
        person: str | None = None,
        reason: str | None = None,
    ) -> list[JobView]:
        """Jobs, newest first. archived: these too. state: only those in it. limit: any number.

        parent: only the trials of this sweep or the steps of this pipeline; "" = only jobs that are neither. text: only
        jobs with it in their name, display name, experiment, compute or tags. person: only this user's. reason: only
        jobs whose state has this reason, such as `hanging`.
        """
        archive = "all" if archived else "false"
        wanted = {"state": state, "experiment": experiment, "archived": archive, "parent": parent, "text": text or None}
        wanted |= {"person": person, "reason": reason}
        params: dict[str, Any] = {key: value for key, value in wanted.items() if value is not None}
        jobs: list[JobView] = []
        while len(jobs) < limit:
            page = self.connection.call("GET", "/jobs", params={**params, "limit": min(limit - len(jobs), 1000)})
            jobs += views(JobView, page["jobs"])
            if page["after"] is None:
                break
            params["after"] = page["after"]
        return jobs

    def story(self, name: str) -> list[EventView]:
        """Everything that happened to a job, oldest first."""
        return self._all(EventView, f"/jobs/{part(name)}/story")

    def cancel(self, name: str, *, discard: bool = False) -> JobView:
        """Asks a job to stop. Raises ConflictError when it has ended otherwise, or keeps its results.

        discard: also while it keeps them; what isn't kept yet is lost.
        """
        answer = self.connection.call("POST", f"/jobs/{part(name)}/cancel", params={"discard": discard})
        return view(JobView, answer)

    def change_job(
        self,
        name: str,
        *,
        display_name: str | None = None,
        description: str | None = None,
        tags: Mapping[str, str | None] | None = None,
        seen: Labels | None = None,
    ) -> JobView:
        """Changes display name, note and tags of a job and of its MLflow run; None leaves one as it is.

        tags: by name, None removes one; others stay. seen: what they were when they were read; if they have changed
        since, ConflictError has both texts in `fields`. Raises NotFoundError, SpecError, ForbiddenError.
        """
        body = JobChange(display_name, description, dict(tags or {}), seen)
        return view(JobView, self.connection.call("PATCH", f"/jobs/{part(name)}", json=wire.to_wire(body)))

    def archive(self, name: str) -> None:
        """Hides a job that has ended from lists. Raises ConflictError while it is unfinished."""
        self.connection.call("POST", f"/jobs/{part(name)}/archive")

    def restore(self, name: str) -> None:
        """Shows an archived job in lists again."""
        self.connection.call("POST", f"/jobs/{part(name)}/restore")

    def delete(self, name: str) -> Freed:
        """Deletes a job that has ended: its rows, events, logs, outputs in its folder, checkpoints, and the snapshots
        that only it needs. Idempotent. Raises NotFoundError; ConflictError with the reason why it is kept.
        """
        return view(Freed, self.connection.call("DELETE", f"/jobs/{part(name)}"))

    def deletion_plan(self, names: Sequence[str]) -> Freed:
        """Returns what the deletion of these jobs together would delete, and what would be kept and why."""
        return view(Freed, self.connection.call("GET", "/deletion-plan", params={"job": [*names]}))

    def wait(self, name: str, timeout_s: float | None = None) -> JobWithEvents | None:
        """Waits until a job is over: it has ended, and its outputs are stored, or held up for half a minute.

        None when the time is up first.
        """
        end = None if timeout_s is None else time.monotonic() + timeout_s
        place = job_events.StreamPosition(has_logs=False, until=end)
        is_over = False
        for event in job_events.follow(self.connection.another(), name, place):
            is_over = isinstance(event, End)
        return self.get(name) if is_over else None

    # --- sweeps and pipelines ---------------------------------------------------------------------------------
    def sweep(self, name: str) -> SweepView:
        """Returns a sweep with its trials. Raises NotFoundError, also for a job that is no sweep."""
        return view(SweepView, self.connection.call("GET", f"/sweeps/{part(name)}"))

    def best(self, name: str) -> TrialView:
        """Returns the trial with the best value of the primary metric so far.

        Raises NotFoundError while no trial has reported one.
        """
        sweep = self.sweep(name)
        trial = sweep.best_trial
        if trial is None:
            what = f"no trial of {name} has reported the primary metric {sweep.primary_metric!r}"
            raise NotFoundError(what, fix="Rank 0 of a trial must log it under exactly this name.")
        return trial

    def pipeline(self, name: str) -> PipelineView:
        """Returns a pipeline with its steps. Raises NotFoundError, also for a job that is no pipeline."""
        return view(PipelineView, self.connection.call("GET", f"/pipelines/{part(name)}"))

    # --- following --------------------------------------------------------------------------------------------
    def stream(self, name: str, *, logs: bool = True, away: threading.Event | None = None) -> Iterator[Event]:
        """Story lines, states, pieces of logs from the beginning and as they happen; the last one is `End`.

        Continues after a broken connection or a restart of the server: nothing comes twice. Raises
        UnreachableError when no server answers for two minutes; the job may go on. away: is set each time that none
        does; the caller clears it.
        """
        place = job_events.StreamPosition(has_logs=logs, away=away or threading.Event())
        return job_events.follow(self.connection.another(), name, place)

    def logs(self, name: str) -> Iterator[LogPiece]:
        """What there is of the logs of all ranks, in the order of its arrival; what is written meanwhile isn't waited
        for.
        """
        before, after, end = -1, 0, math.inf
        while before != after < end:
            wanted = {"after": after, "limit": PAGE}
            page = self.connection.call("GET", f"/jobs/{part(name)}/logs", params=wanted)
            if end == math.inf:
                end = page.get("end", end)  # Older servers don't send it.
            before, after = after, page["after"]
            yield from (view(LogPiece, one) for one in page["pieces"])

    # --- files ------------------------------------------------------------------------------------------------
    def files(self, name: str) -> list[FileView]:
        """Lists the files of a job: outputs, logs, events, plan."""
        return self._all(FileView, f"/jobs/{part(name)}/files")

    def source_of_files(self, name: str) -> str:
        """Returns the job whose files are meant: the best trial for a sweep, else the job itself."""
        return self.best(name).job if self.get(name).type == JobKind.SWEEP else name

    def fetch(self, name: str, path: str, to: Path, on_bytes: Callable[[int], None] = lambda _: None) -> None:
        """Downloads one file to the path `to`, whole or not at all. on_bytes: takes the length of each piece."""
        job_downloads.fetch(self.connection, name, path, to, on_bytes)

    def download(self, name: str, to: str | Path, *, under: str = "") -> list[Path]:
        """Downloads the files of a job into a folder. under: only those whose path begins so, like `outputs/`.

        Of a sweep, these are the files of its best trial.
        """
        name = self.source_of_files(name)
        job_downloads.check_folder(Path(to))
        chosen = [file.path for file in self.files(name) if file.path.startswith(under)]
        places = [job_downloads.place_in(Path(to), path) for path in chosen]
        for path, place in zip(chosen, places, strict=True):
            self.fetch(name, path, place)
        partial_file_names.clear(places)
        return places

    # --- the server -------------------------------------------------------------------------------------------
    def status(self) -> ServerView:
        """Returns the identity and state of the server."""
        status = {**self.connection.call("GET", "/version"), **self.connection.call("GET", "/status")}
        return view(ServerView, {**status, "url": self.connection.line.url})

    def set_idle_stop(self, after: timedelta | None) -> None:
        """Sets the idle time after which the running server stops; None = never. It holds until the server ends."""
        body = {"idle_stop_s": after.total_seconds() if after else 0.0}
        self.connection.call("PUT", "/idle-stop", json=body)

    def prune(
        self,
        older_than: timedelta = timedelta(days=30),
        *,
        keep_outputs: bool = False,
        dry_run: bool = False,
        only_snapshots: bool = False,
    ) -> Freed:
        """Deletes jobs that ended at least so long ago, snapshots that nothing needs, and what the caches of the
        server's machine hold unused for so long; says what is kept, and why.

        keep_outputs: jobs that have kept outputs stay, without logs and checkpoints. dry_run: nothing is deleted.
        only_snapshots: nothing but snapshots that nothing needs.
        """
        body: dict[str, Any] = {
            "older_than_s": older_than.total_seconds(),
            "keep_outputs": keep_outputs,
            "dry_run": dry_run,
        }
        if only_snapshots:
            body["only"] = "snapshot"
        return view(Freed, self.connection.call("POST", "/prune", json=body))

    def usage(self) -> Usage:
        """What jobs, snapshots, caches of the server's machine and its own datastores take, the biggest first."""
        return view(Usage, self.connection.call("GET", "/usage"))

    def set_retention(self, retain: timedelta | None) -> None:
        """Sets after how long the server deletes jobs that have ended; None = never. The rule survives restarts."""
        body = {"retain_s": retain.total_seconds() if retain else 0.0}
        self.connection.call("PUT", "/retention", json=body)

    def stop(self, *, force: bool = False) -> None:
        """Ends the server, and returns when it is gone.

        Raises ConflictError with unfinished jobs, unless `force`: they go on without it.
        """
        self.connection.call("POST", "/stop", json={"force": force})
        self.connection.wait_for_end()

    def _all(self, kind: type[T], path: str) -> list[T]:
        return views(kind, self.connection.call("GET", path))


def _page_path(job: str) -> str:
    return f"/ui/jobs/{part(job)}"

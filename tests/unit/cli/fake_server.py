"""A server in memory, for the faces of the command line: it holds jobs, and tells the events it was given."""

import threading
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from drumbeat.cli.main import app
from drumbeat.cli.terminal.connect import MAKER
from drumbeat.client.environment_files import given
from drumbeat.client.job_upload import described
from drumbeat.model.api.computes import AliasView, ComputeView, Machine
from drumbeat.model.api.environments import EnvironmentView
from drumbeat.model.api.jobs import End, Event, FileView, JobView, LogPiece, PreviewView
from drumbeat.model.api.outlooks import OutlookView, StartView
from drumbeat.model.api.requests import Labels
from drumbeat.model.api.server import AgentListenerView, ServerView
from drumbeat.model.api.space import Freed, KeptItem, SpaceItem
from drumbeat.model.errors import ConflictError, DrumbeatError, NotFoundError
from drumbeat.model.plan import PythonEnvironment
from drumbeat.model.states import TERMINAL
from tests.unit.cli.samples import a_job, sample


def _given(more: Mapping[str, object]) -> list[tuple[str, object]]:
    """The options that a command gave, without those that say nothing."""
    return [(name, value) for name, value in more.items() if value]


@dataclass
class FakeServer:
    """events: what `stream` tells of any job; before an `End` it waits until the job was canceled, if `is_endless`."""

    jobs: dict[str, JobView] = field(default_factory=dict)
    preview: PreviewView | None = None
    events: Sequence[Event | Callable[[], object]] = ()
    contents: dict[str, bytes] = field(default_factory=dict)
    known_aliases: dict[tuple[str, str], str] = field(default_factory=dict)
    known_computes: list[ComputeView] = field(default_factory=list)
    known_environments: list[EnvironmentView] = field(default_factory=list)
    needed: dict[str, str] = field(default_factory=dict)
    freed: Freed = field(default_factory=Freed)
    doors: tuple[AgentListenerView, ...] = ()
    others: tuple[str, ...] = ()
    idle_stop_s: float = 900.0
    host: str = "laptop"
    mlflow: str = ""
    boot_id: str = "b"
    pid: int = 4711
    error: DrumbeatError | None = None
    is_endless: bool = False
    cancel_sentence: str = "a person asked for it"
    outlooks: dict[str, OutlookView] = field(default_factory=dict)
    calls: list[tuple[object, ...]] = field(default_factory=list)
    canceled: threading.Event = field(default_factory=threading.Event)

    def _called(self, *call: object) -> None:
        self.calls.append(call)
        if self.error:
            raise self.error

    def delete(self, name: str) -> Freed:
        self._called("delete", name)
        if name not in self.jobs:
            raise NotFoundError(f"there is no job {name}")
        if name in self.needed:
            raise ConflictError(f"job {name} isn't deleted: {self.needed.pop(name)} needs it", fix="Delete that first.")
        del self.jobs[name]
        return Freed((SpaceItem("job", name, 2048, note="completed"),), (), 2048)

    def deletion_plan(self, names: Sequence[str]) -> Freed:
        self._called("deletion_plan", *names)
        items = tuple(SpaceItem("job", name, 2048, note="completed") for name in names if name not in self.needed)
        kept = tuple(KeptItem(f"job {name}", f"{self.needed[name]} needs it") for name in names if name in self.needed)
        return Freed(items, kept, 2048 * len(items), is_dry=True)

    def prune(
        self,
        older_than: timedelta,
        *,
        keep_outputs: bool = False,
        dry_run: bool = False,
        only_snapshots: bool = False,
    ) -> Freed:
        self._called("prune", older_than, keep_outputs, dry_run, *(["snapshots"] if only_snapshots else []))
        return replace(self.freed, is_dry=dry_run)

    def plan(self, job: Path | dict[str, object], *, sets: Sequence[str] = (), name: str | None = None) -> PreviewView:
        self._called("plan", job if isinstance(job, dict) else str(job), tuple(sets), name)
        assert self.preview
        return self.preview

    def submit(self, job: Path | dict[str, object], *, sets: Sequence[str] = (), name: str | None = None) -> JobView:
        self._called("submit", job if isinstance(job, dict) else str(job), tuple(sets), name)
        new = a_job(name=name or "mnist-7f3a", state="queued")
        self.jobs.setdefault(new.name, new)
        return new

    def run_again(self, like: str, *, sets: Sequence[str] = (), name: str | None = None, **more: object) -> JobView:
        self._called("run_again", like, tuple(sets), name, *_given(more))
        new = a_job(name=name or "again-7f3a", state="queued")
        self.jobs[new.name] = new
        return new

    def plan_again(
        self, like: str, *, sets: Sequence[str] = (), name: str | None = None, **more: object
    ) -> PreviewView:
        self._called("plan_again", like, tuple(sets), name, *_given(more))
        assert self.preview
        return self.preview

    def get(self, name: str) -> JobView:
        self._called("get", name)
        if name not in self.jobs:
            raise NotFoundError(f"no job {name}")
        return self.jobs[name]

    def outlook(self, job: str) -> OutlookView:
        return self.outlooks.get(job) or OutlookView(job)

    def starts(self) -> Sequence[StartView]:
        return [one.start for one in self.outlooks.values() if one.start]

    def cancel(self, name: str, *, discard: bool = False) -> JobView:
        self._called("cancel", name)
        job = self.jobs[name]
        if job.state in TERMINAL:
            raise ConflictError(f"job {name} has ended: {job.state}")
        if job.state == "finalizing" and job.verdict and job.verdict.reason == "cancel_requested":
            return job  # Asked for already.
        if job.state == "finalizing" and not discard:
            fix = f"To give up the others: drumbeat cancel {name} --discard"
            raise ConflictError(f"job {name} is done and keeps its results", fix=fix)
        self.jobs[name] = replace(job, state="stopping", sentence=self.cancel_sentence)
        self.canceled.set()
        return self.jobs[name]

    def wait(self, name: str, timeout_s: float | None = None) -> JobView | None:
        self._called("wait", name, timeout_s)
        return self.jobs[name] if self.jobs[name].state in TERMINAL else None

    def source_of_files(self, name: str) -> str:
        return name

    def page_link(self, job: str = "") -> str:
        self._called("page_link", *filter(None, [job]))
        return f"http://127.0.0.1:8080/ui/open/once{f'?to=%2Fui%2Fjobs%2F{job}' if job else ''}"

    def page_address(self, job: str) -> str:
        return f"http://127.0.0.1:8080/ui/jobs/{job}"

    def change_job(
        self,
        name: str,
        *,
        display_name: str | None = None,
        description: str | None = None,
        tags: Mapping[str, str | None] | None = None,
        seen: Labels | None = None,
    ) -> JobView:
        self._called("change_job", name, seen.description if seen else None)
        job = self.jobs[name]
        after = {key: value for key, value in {**job.tags, **(tags or {})}.items() if value is not None}
        title, note = (
            old if new is None else new
            for old, new in ((job.display_name, display_name), (job.description, description))
        )
        self.jobs[name] = replace(job, display_name=title, description=note, tags=after)
        return self.jobs[name]

    def archive(self, name: str) -> None:
        self._called("archive", name)

    def restore(self, name: str) -> None:
        self._called("restore", name)

    def logs(self, name: str) -> Iterator[LogPiece]:
        self._called("logs", name)
        return (event for event in self.events if isinstance(event, LogPiece))

    def stream(self, name: str, *, away: threading.Event) -> Iterator[Event]:
        del away
        self._called("stream", name)
        for event in self.events:
            if callable(event):
                event()
                continue
            if isinstance(event, End) and self.is_endless:
                self.canceled.wait(60)
            yield event

    def files(self, name: str) -> list[FileView]:
        self._called("files", name)
        return [FileView(path, len(content)) for path, content in self.contents.items()]

    def fetch(self, name: str, path: str, to: Path, on_bytes: Callable[[int], None]) -> None:
        self._called("fetch", name, path)
        to.write_bytes(self.contents[path])
        on_bytes(len(self.contents[path]))

    def aliases(self) -> list[AliasView]:
        self._called("aliases")
        return [AliasView(kind, name, target) for (kind, name), target in self.known_aliases.items()]

    def set_alias(self, kind: str, name: str, target: str | None) -> None:
        self._called("set_alias", kind, name, target)
        if target:
            self.known_aliases[kind, name] = target
        elif self.known_aliases.pop((kind, name), None) is None:
            raise NotFoundError(f"no alias {name}")

    def computes(self) -> list[ComputeView]:
        self._called("computes")
        return self.known_computes

    def compute(self, name: str) -> ComputeView:
        self._called("compute", name)
        for one in self.known_computes:
            if one.name == name:
                return one
        raise NotFoundError(f"there is no compute {name}; there is local")

    def create_compute(self, compute: Path | dict[str, object], *, sets: Sequence[str] = ()) -> ComputeView:
        document, _ = described(compute, sets)
        self._called("create_compute", document)
        machines = tuple(sample(Machine, f"node-{n}", 4) for n in range(int(document.get("nodes", 2))))
        made = sample(ComputeView, str(document["name"]), str(document["type"]), machines, spec=document)
        self.known_computes.append(made)
        return made

    def scale_compute(self, name: str, **numbers: float | None) -> ComputeView:
        self._called("scale_compute", name, numbers)
        return self.compute(name)

    def delete_compute(self, name: str) -> None:
        self._called("delete_compute", name)
        self.known_computes.remove(self.compute(name))

    def environments(
        self, name: str | None = None, *, curated: bool = False, archived: bool = False
    ) -> list[EnvironmentView]:
        self._called("environments", name, curated, *([archived] if archived else []))
        listed = (one for one in self.known_environments if archived or not one.is_archived)
        return [one for one in listed if one.curated == curated and name in (None, one.name)]

    def environment(self, name: str, version: str = "") -> EnvironmentView:
        self._called("environment", name, version)
        for one in self.known_environments:
            if one.name == name and version in ("", one.version):
                return one
        raise NotFoundError(f"there is no environment {name}")

    def create_environment(self, environment: Path | dict[str, object], *, sets: Sequence[str] = ()) -> EnvironmentView:
        body = given(environment, sets, lambda _place, _key: "0" * 64)
        self._called("create_environment", body)
        python = PythonEnvironment("0123456789abcdef", "", "3.11", ("torch==2.13.0", "numpy"))
        made = sample(EnvironmentView, str(body["document"]["name"]), "1", python, notes=("the image x isn't used",))
        self.known_environments.append(made)
        return made

    def delete_environment(self, name: str, version: str) -> None:
        self._called("delete_environment", name, version)
        self.known_environments.remove(self.environment(name, version))

    def status(self) -> ServerView:
        self._called("status")
        unfinished = tuple(job.name for job in self.jobs.values() if not job.has_ended)
        url, home = "http://127.0.0.1:7171", "/home/ann/.drumbeat"
        return sample(
            ServerView, version="0.1.0", host=self.host, pid=self.pid, home=home, url=url, uptime_s=125.0,
            unfinished=unfinished, doors=self.doors, others=self.others, idle_stop_s=self.idle_stop_s,
            boot_id=self.boot_id, mlflow=self.mlflow,
        )  # fmt: skip

    def set_mlflow_server(self, url: str | None) -> None:
        self._called("set_mlflow_server", url)
        self.mlflow = url or ""

    def set_idle_stop(self, after: timedelta | None) -> None:
        self._called("set_idle_stop", after)
        self.idle_stop_s = after.total_seconds() if after else 0.0

    def stop(self, *, force: bool = False) -> None:
        self._called("stop", force)

    def list(
        self,
        *,
        state: str | None = None,
        experiment: str | None = None,
        archived: bool = False,
        limit: int = 100,
        parent: str | None = None,
        person: str | None = None,
        reason: str | None = None,
    ) -> list[JobView]:
        self._called("list", state, experiment, archived, limit, *filter(None, (parent, person, reason)))
        newest = sorted(self.jobs.values(), key=lambda job: job.submitted_at, reverse=True)
        return [
            job
            for job in newest
            if state in (None, job.state) and experiment in (None, job.experiment) and (archived or not job.archived)
            if parent in (None, job.parent) and person in (None, job.person) and reason in (None, job.reason)
        ][:limit]


Type = Callable[..., Result]
"""Types the words of a command."""


@contextmanager
def in_memory(server: FakeServer | None = None) -> Generator[FakeServer]:
    """The server that commands find."""
    fake = server or FakeServer()
    token = MAKER.set(lambda _: fake)
    yield fake
    MAKER.reset(token)


def typing_in(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Type:
    """A user in a folder, without a terminal."""
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    return lambda *words: CliRunner().invoke(app, [str(word) for word in words])

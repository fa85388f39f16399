"""A server in this process with a store in memory, and real agents on this machine."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from drumbeat.core.lifecycle.events import JobEvent
from drumbeat.core.lifecycle.job import Job
from drumbeat.core.scheduling.resource_needs import JobPolicy, Need
from drumbeat.engines.local import LocalEngine
from drumbeat.engines.netlab.engine import NetlabEngine
from drumbeat.engines.netlab.lab import Lab
from drumbeat.launchers import ranks
from drumbeat.model import home_socket
from drumbeat.model.errors import NotFoundError
from drumbeat.model.plan import InputPlan, Plan
from drumbeat.model.states import Reason, State
from drumbeat.ports.engines import Engine
from drumbeat.server.access.agent_listeners import AgentListenerRules, TlsAgentListeners
from drumbeat.server.control import Control, Setting
from drumbeat.server.database.records import Submission
from drumbeat.server.home_folder import FolderArtifacts
from drumbeat.wiring import SystemClock
from tests.faces.api_house import served
from tests.support.agent_gang import end_all
from tests.support.memory_data import ROOT, MemoryData
from tests.support.memory_store import MemoryStore

from .guard import guarded
from .house import until


def remote(
    name: str, path: str = "", *, type: str = "uri_folder", mode: str = "ro_mount", mount: bool = False
) -> InputPlan:
    """An input in the store."""
    file = path.rpartition("/")[2] if type == "uri_file" else ""
    return InputPlan(name, type, f"{ROOT}/{path}".rstrip("/"), mode, file, mount=mount)


@dataclass
class Depot:
    """control: of the server. cache: the folder of the nodes' cache of data."""

    folder: Path
    control: Control
    data: MemoryData
    cache: Path

    compute: str = "local"

    def submit(self, name: str, command: str, *inputs: InputPlan, nodes: int = 1, **plan: Any) -> str:
        """A job whose inputs are planned already; in `command`, `${{inputs.x}}`. plan: further fields of the Plan."""
        plan = Plan(
            name, "tests", "pytorch", nodes, 1, command, ranks("pytorch", nodes, 1), inputs=inputs,
            path_first=(str(Path(sys.executable).parent),), compute=self.compute, **plan,
        )  # fmt: skip
        now = self.control.setting.clock.now()
        job = Job(name, plan, Need(nodes, 1), JobPolicy(max_retries=0), now)
        line = JobEvent(now, State.QUEUED, Reason.ACCEPTED, "accepted")
        submission = Submission(name, job, {"command": command}, (line,))
        self.control.loop.call(lambda: self.control.jobs.write(submission))
        return name

    def job(self, name: str) -> Job:
        return self.control.store.load(name).job

    def detail(self, name: str, node: int = 0) -> str:
        nodes = self.job(name).nodes
        said = nodes[node] if nodes else None
        return said.detail if said else ""

    def ended(self, name: str, within_s: float = 60) -> Job:
        until(lambda: self.job(name).state.is_terminal, within_s, f"the end of {name}")
        return self.job(name)

    def completed(self, name: str) -> str:
        """What rank 0 said, of a job that did well."""
        job = self.ended(name)
        assert job.state == "completed", job.sentence
        return self.log(name)

    def log(self, name: str) -> str:
        """What rank 0 has printed, as far as it has come."""
        try:
            return self.control.artifacts.open_file(name, "logs/1.1/0/0.log").read_text()
        except NotFoundError:
            return ""

    def root(self, name: str, node: int = 0) -> Path:
        return self.folder / "nodes" / f"{name}.1" / str(node) / "root"

    def kept(self) -> list[Path]:
        """Whole files of the cache."""
        return [path for path in (self.cache / "files").rglob("*") if path.is_file()]

    def parts(self) -> list[Path]:
        return list((self.cache / "parts").glob("*"))


@contextlib.contextmanager
def a_depot(folder: Path, data: MemoryData) -> Iterator[Depot]:
    """Nodes of this machine. DRUMBEAT_CACHE must name a folder of the test's own: agents inherit this environment."""
    assert str(folder) in os.environ["DRUMBEAT_CACHE"]
    engine = LocalEngine(folder / "nodes", folder / "kept", leave_s=0.5)
    with guarded(folder):
        try:
            with _control(folder, data, {"local": engine}) as control, _running(control, folder):
                yield Depot(folder, control, data, Path(os.environ["DRUMBEAT_CACHE"]) / "data")
        finally:
            engine.sweep(set[str])
            end_all(str(folder / "nodes"))


@contextlib.contextmanager
def a_lab_depot(folder: Path, data: MemoryData, lab: Lab, *, has_own_caches: bool = False) -> Iterator[Depot]:
    """The nodes of a lab, which has to be up; the store is at the lab's address of this machine."""
    engine = NetlabEngine(lab, 1, folder / "kept", has_own_caches=has_own_caches)
    engine.leave_s = 0.5
    data.serve(lab.gateway)
    with guarded(folder):
        try:
            with _control(folder, data, {"lab": engine}) as control:
                rules = AgentListenerRules(folder / "ca.pem", folder / "doors.json")
                control.addresses.listeners = listeners = TlsAgentListeners(rules, control.setting.clock)
                try:
                    with _running(control, folder, listeners):
                        yield Depot(folder, control, data, Path(), compute="lab")
                finally:
                    listeners.close()
        finally:
            data.close()
            engine.sweep(set[str])
            super(NetlabEngine, engine).close()


@contextlib.contextmanager
def _control(folder: Path, data: MemoryData, engines: dict[str, Engine]) -> Iterator[Control]:
    home = folder / "home"
    home.mkdir(parents=True)
    yield Control(Setting(MemoryStore(), FolderArtifacts(home), engines, SystemClock(), b"k" * 32, data=data))


@contextlib.contextmanager
def _running(control: Control, folder: Path, listeners: TlsAgentListeners | None = None) -> Iterator[None]:
    with served(control, folder / "home", listeners=listeners):
        control.addresses.here = (home_socket.address_in(folder / "home"),)
        control.start()
        try:
            yield
            with contextlib.suppress(AssertionError):  # What a test left running is ended the hard way.
                until(lambda: not control.has_unfinished_work(), 10)
        finally:
            control.stop()

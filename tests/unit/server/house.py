"""A control room with a fake engine, for tests of what goes on in it."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from drumbeat.model.agent import AgentStatus, Phase, RankExit
from drumbeat.model.api.requests import JobRequest
from drumbeat.model.errors import NotFoundError
from drumbeat.model.roster import Member
from drumbeat.model.states import State
from drumbeat.model.unique_names import gang_name
from drumbeat.server.computes.agent_addresses import Endpoints
from drumbeat.server.computes.engines import EngineMaker, no_engines
from drumbeat.server.control import Control, Setting
from drumbeat.server.home_folder import FolderArtifacts
from drumbeat.wiring import SystemClock
from tests.support.fake_engine import FakeEngine
from tests.support.memory_store import MemoryStore

JOB = {"command": "python t.py", "distribution": {"type": "pytorch", "process_count_per_instance": 1}}


def until(condition: Callable[[], bool], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it didn't happen in time"
        time.sleep(0.005)


class House:
    """A control room, and the agents of its jobs."""

    def __init__(
        self,
        folder: Path,
        store: MemoryStore,
        engine: FakeEngine,
        make_engine: EngineMaker = no_engines,
        **more: Any,
    ) -> None:
        """more: what else the control room works with, by `Setting`'s names."""
        self.store, self.engine, self.folder, self.make_engine, self.more = store, engine, folder, make_engine, more
        self.control = self._open()

    def _open(self) -> Control:
        artifacts = FolderArtifacts(self.folder)
        endpoints = Endpoints(("http://127.0.0.1:1",))
        setting = Setting(
            self.store, artifacts, {"local": self.engine}, SystemClock(), b"key", make_engine=self.make_engine,
            endpoints=endpoints, **self.more,
        )  # fmt: skip
        control = Control(setting)
        control.start()
        return control

    def reopen(self) -> None:
        self.control.stop()
        self.control = self._open()

    def submit(self, name: str, key: str = "", nodes: int = 1, **more: object) -> str:
        document = {**JOB, "name": name, "resources": {"instance_count": nodes}, **more}
        record, _ = self.control.jobs.submit(JobRequest(document, key=key))
        return record.job.name

    def state(self, name: str) -> State:
        return self.store.load(name).job.state

    def gang(self, name: str, attempt: int = 1):
        until(lambda: self._gang_name(name, attempt) in self.engine.gangs)
        return self.engine.gangs[self._gang_name(name, attempt)]

    def _gang_name(self, job: str, attempt: int) -> str:
        """The gang of a job, "" = there is no such job, such as a step that isn't submitted yet."""
        try:
            return gang_name(self.store.load(job).job.unique_name, attempt)
        except NotFoundError:
            return ""

    def say(self, name: str, node: int, phase: Phase, attempt: int = 1, round_: int = 1, **more: object):
        secret = self.gang(name, attempt).node_secret(node)
        status = AgentStatus(phase, round_, Member(node, "h", "127.0.0.1", f"/r{node}", "/c"), 2000, **more)
        return self.control.agents.report(name, attempt, node, secret, status)

    def run_to_end(self, name: str, nodes: int = 1, code: int = 0, attempt: int = 1) -> None:
        for phase in (Phase.READY, Phase.ENDED, Phase.UPLOADED):
            for node in range(nodes):
                exits = (RankExit(node, code, None, 1.0, 0),) if phase is not Phase.READY else ()
                self.say(name, node, phase, attempt, exits=exits)

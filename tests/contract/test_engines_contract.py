"""Every engine there is keeps the engine's promises."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from drumbeat.engines.contract import TIMEOUT_S, EngineContract, a_gang
from drumbeat.engines.local import LocalEngine
from drumbeat.node.host.gangs import living_agent, members
from drumbeat.node.host.processes import command_lines
from drumbeat.ports.engines import Gang
from tests.support.fake_engine import FakeEngine

pytestmark = pytest.mark.feature("C4")


class TestFake(EngineContract):
    @pytest.fixture
    def engine(self) -> FakeEngine:
        return FakeEngine()

    @pytest.fixture
    def lose(self, engine: FakeEngine) -> Callable[[Gang, int], None]:
        def lose(gang: Gang, node: int) -> None:
            engine.gone[gang.name] = {node: "no power"}

        return lose


class TestLocal(EngineContract):
    @pytest.fixture
    def engine(self, tmp_path: Path) -> Iterator[LocalEngine]:
        engine = LocalEngine(tmp_path / "nodes", tmp_path / "jobs", leave_s=0.1)
        yield engine
        for name in ("contract.1", "contract.2"):
            engine.stop(name)
        assert members(tmp_path / "nodes" / "contract.1") == []
        assert not list((tmp_path / "nodes").glob("*"))

    @pytest.fixture
    def lose(self, engine: LocalEngine, tmp_path: Path) -> Callable[[Gang, int], None]:
        def lose(gang: Gang, node: int) -> None:
            folder = engine.folder / gang.name / str(node)
            folder.rename(tmp_path / "lost")  # At once: its agent may be writing there.
            for pid in members(folder.parent):
                with contextlib.suppress(psutil.NoSuchProcess):
                    if str(folder) in " ".join(psutil.Process(pid).cmdline()):
                        psutil.Process(pid).kill()

        return lose

    @pytest.mark.feature("F5")
    def test_an_agent_that_was_killed_is_started_again(self, engine: LocalEngine):
        gang = a_gang(nodes=1)
        engine.start(gang)
        before = psutil.Process(living_agent(engine.folder / gang.name / "0"))
        before.kill()
        before.wait(10)
        assert engine.observe(gang).gone == {}
        assert living_agent(engine.folder / gang.name / "0") not in (None, before.pid)

    @pytest.mark.feature("F5")
    def test_an_agent_that_ended_before_its_birth_was_written_down_is_not_alive(self, engine: LocalEngine):
        gang = a_gang(nodes=1)
        engine.start(gang)
        folder = engine.folder / gang.name / "0"
        agent = psutil.Process(living_agent(folder))
        agent.kill()
        agent.wait(10)
        (folder / "agent.json").write_text(json.dumps({"pid": agent.pid, "born": None, "starts": 1}))
        assert living_agent(folder) is None
        assert engine.observe(gang).gone == {}
        assert living_agent(folder) not in (None, agent.pid)

    def test_an_enrolment_is_for_its_owner_only(self, engine: LocalEngine):
        gang = a_gang(nodes=1)
        engine.start(gang)
        assert (engine.folder / gang.name / "0" / "enrolment.json").stat().st_mode & 0o077 == 0
        told: dict[int, str] = {}
        deadline = time.monotonic() + TIMEOUT_S
        while living_agent(engine.folder / gang.name / "0") not in told:  # /proc shows it a moment after its start.
            assert time.monotonic() < deadline
            told = {pid: " ".join(words) for pid, words in command_lines()}
        assert not [pid for pid, words in told.items() if gang.node_secret(0) in words]

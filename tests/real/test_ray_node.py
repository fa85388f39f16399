"""A node of a gang on a machine of a Ray cluster, without Ray: the part that its actor has started as a daemon."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from drumbeat.engines.agent_archive import agent_archive
from drumbeat.engines.contract import a_gang
from drumbeat.engines.enrolment import enrolment
from drumbeat.engines.ray import gang_program
from drumbeat.node.host.gangs import living_agent

from .guard import guarded
from .house import until

pytestmark = pytest.mark.feature("C4")


def test_node_is_started_once_outlives_its_parent_and_is_ended_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setenv("RAY_ADDRESS", "of the cluster")
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.chdir(tmp_path)
    file = tmp_path / gang_program.AGENT_FILE
    file.write_bytes(agent_archive().content)
    command = [sys.executable, "-I", str(file), "drumbeat.node.host.ray_node", "g.1", "0"]
    text = enrolment(a_gang(), 0, root="", checkpoints="/kept")
    with guarded(tmp_path):
        request = {"enrolment": text, "gpus": [], "address": "10.1.1.1"}
        folder = Path(gang_program.ask_agent_module(command, request)["folder"])
        agent = living_agent(folder)
        assert agent is not None
        assert gang_program.ask_agent_module(command, request) == {"folder": str(folder)}
        assert living_agent(folder) == agent, "another actor that finds it takes it over"
        assert b"RAY_ADDRESS" not in Path(f"/proc/{agent}/environ").read_bytes()
        assert '"address":"10.1.1.1"' in (folder / "enrolment.json").read_text().replace(" ", "")
        assert gang_program.end_node("g.1") == ""
        until(lambda: not folder.exists(), 20, "the end")
        assert living_agent(folder) is None


def test_machine_that_cant_start_a_node_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    file = tmp_path / gang_program.AGENT_FILE
    file.write_bytes(agent_archive().content)
    monkeypatch.setattr(tempfile, "tempdir", None)
    own = gang_program.own_folder()
    own.mkdir(0o755)
    command = [sys.executable, "-I", str(file), "drumbeat.node.host.ray_node", "g.1", "0"]
    request = {"enrolment": enrolment(a_gang(), 0, root="", checkpoints="/kept"), "gpus": [], "address": ""}
    assert gang_program.ask_agent_module(command, request) == {
        "error": f"the folder isn't private: remove it, or `chmod 700` it if it's yours: {own}"
    }
    assert gang_program.ask_agent_module(["/no/python"], {}) == {
        "error": "[Errno 2] No such file or directory: '/no/python'"
    }


class OneMachine(ModuleType):
    """A Ray of one machine, this one: tasks run as they are given, and the gang `g.1` has a group and no actor."""

    def __init__(self) -> None:
        super().__init__("ray")
        group = {"name": "g.1", "bundles_to_node_id": {0: "id1"}}
        self.util = SimpleNamespace(
            placement_group_table=lambda: {"1": group},
            list_named_actors=lambda all_namespaces: [],
            get_placement_group=str,
            remove_placement_group=lambda one: group.update(name=""),
        )
        self.exceptions = SimpleNamespace(RayError=RuntimeError, GetTimeoutError=TimeoutError)

    def nodes(self) -> list[dict[str, object]]:
        return [{"NodeID": "id1", "Alive": True}]

    def remote(self, function: Callable[..., str]) -> SimpleNamespace:
        return SimpleNamespace(options=lambda **_: SimpleNamespace(remote=function))

    def get(self, answer: str, timeout: float) -> str:
        assert timeout > 0
        return answer


@pytest.fixture
def python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The interpreter of agents on a machine where the one that Ray runs with is too old for them."""
    own, old = sys.executable, tmp_path / "python3.9"
    old.write_text("#!/bin/sh\necho \"ImportError: cannot import name 'Self' from 'typing'\" >&2\nexit 1\n")
    old.chmod(0o755)
    scheduling = ModuleType("ray.util.scheduling_strategies")
    scheduling.__dict__["NodeAffinitySchedulingStrategy"] = lambda *_, **__: None
    monkeypatch.setitem(sys.modules, "ray", OneMachine())
    monkeypatch.setitem(sys.modules, "ray.util.scheduling_strategies", scheduling)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "executable", str(old))
    gang_program.own_folder().mkdir(0o700)
    Path(gang_program.AGENT_FILE).write_bytes(agent_archive().content)
    return own


def test_gang_is_ended_by_the_computes_python_where_rays_is_too_old(python: str):
    folder = gang_program.own_folder() / "g.1" / "0"
    folder.mkdir(parents=True)
    assert gang_program.end_node("g.1") == "ImportError: cannot import name 'Self' from 'typing'"
    assert gang_program.stop({"name": "g.1", "namespace": "drumbeat", "python": python}) == 0
    assert not folder.exists()


def test_drained_machines_actor_ends_its_node_by_the_computes_python(python: str):
    folder = gang_program.own_folder() / "g.1" / "0"
    folder.mkdir(parents=True)
    holder = gang_program.BundleHolder("g.1", 0, 1)
    place = gang_program.agent_folder("g.1", "0")
    place.mkdir(parents=True)
    (place / gang_program.AGENT_FILE).write_bytes(agent_archive().content)
    holder.folder = str(folder)
    assert holder.begin(python, b"", "") == ""
    assert holder.end() == ""
    assert not folder.exists()


@pytest.mark.usefixtures("python")
def test_gang_whose_python_is_missing_has_nothing_left_on_the_machine():
    place = gang_program.agent_folder("g.1", "0")
    place.mkdir(parents=True)
    assert gang_program.stop({"name": "g.1", "namespace": "drumbeat", "python": "/no/python"}) == 0
    assert not place.exists()

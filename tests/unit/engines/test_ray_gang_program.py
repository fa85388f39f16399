"""What the program on a Ray cluster says of machines on which a gang is ended."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from drumbeat.engines.ray.gang_program import (
    AGENT_FILE,
    BundleHolder,
    agent_folder,
    end_node,
    end_result,
    own_folder,
)

pytestmark = pytest.mark.feature("C4")


class RayError(Exception):
    """As in `ray.exceptions`."""


class GetTimeoutError(RayError):
    """As in `ray.exceptions`."""


class OutOfMemoryError(RayError):
    """As in `ray.exceptions`."""


class TaskUnschedulableError(RayError):
    """As in `ray.exceptions`."""


class Holder:
    """The handle of an actor whose `end` answers this."""

    def __init__(self, answer: object) -> None:
        self.end = SimpleNamespace(remote=lambda: answer)


GROUPS = [{"name": "g", "bundles_to_node_id": {0: "id1", 1: "id2"}}]


@pytest.fixture
def ray(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A Ray with one machine that lives and one that doesn't; references are what `get` returns or raises."""

    def get(reference: object, timeout: float) -> object:
        assert timeout > 0
        if isinstance(reference, Exception):
            raise reference
        return reference

    module = ModuleType("ray")
    nodes = [
        {"NodeID": "id1", "Alive": True, "NodeManagerHostname": "n1"},
        {"NodeID": "id2", "Alive": False, "NodeManagerHostname": "n2"},
    ]
    errors = SimpleNamespace(RayError=RayError, GetTimeoutError=GetTimeoutError)
    module.__dict__.update(get=get, nodes=lambda: nodes, exceptions=errors)
    monkeypatch.setitem(sys.modules, "ray", module)
    return module


@pytest.mark.usefixtures("ray")
@pytest.mark.parametrize(
    ("answer", "machine", "said"),
    [
        ("", "id1", ""),
        ("process 17 can't be killed", "id1", "process 17 can't be killed"),
        (OutOfMemoryError(), "id1", "its processes on machine n1 can't be ended now (OutOfMemoryError)"),
        (OutOfMemoryError(), "id2", ""),
        (RayError(), "gone", ""),
        (GetTimeoutError(), "id1", "a machine doesn't answer"),
    ],
)
def test_only_a_machine_that_is_lost_counts_as_ended_where_the_ending_failed(answer: object, machine: str, said: str):
    assert end_result("g", answer, machine, GROUPS) == said


@pytest.mark.parametrize(
    ("holders", "said"),
    [
        ({}, ""),
        ({"g/1": Holder("of another machine"), "of-another/0": Holder("of another gang")}, ""),
        ({"g/0": SimpleNamespace()}, ""),
        ({"g/0": Holder("")}, ""),
        ({"g/0": Holder("process 17 can't be killed")}, "process 17 can't be killed"),
        ({"g/0": Holder(OutOfMemoryError())}, "its processes on machine n1 can't be ended now (OutOfMemoryError)"),
        ({"g/0": Holder(GetTimeoutError())}, "a machine doesn't answer"),
    ],
)
def test_a_drained_machine_that_takes_no_task_is_ended_by_the_gangs_actor_there(
    ray: ModuleType, monkeypatch: pytest.MonkeyPatch, holders: dict[str, object], said: str
):
    state = ModuleType("ray._private.state")
    state.__dict__["state"] = SimpleNamespace(get_draining_nodes=lambda: {"id1": 0})
    monkeypatch.setitem(sys.modules, "ray._private.state", state)
    names = [{"name": name, "namespace": "x"} for name in holders]
    ray.__dict__["util"] = SimpleNamespace(list_named_actors=lambda all_namespaces: names)
    ray.__dict__["get_actor"] = holders.__getitem__
    assert end_result("g", TaskUnschedulableError(), "id1", GROUPS) == said


@pytest.mark.usefixtures("ray")
def test_a_machine_that_takes_no_task_and_is_not_drained_is_asked_again():
    said = end_result("g", TaskUnschedulableError(), "id1", GROUPS)
    assert said == "its processes on machine n1 can't be ended now (TaskUnschedulableError)"


@pytest.mark.parametrize("mode", [0o755, 0o770])
def test_no_program_of_a_folder_that_others_have_access_to_is_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int
):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    folder = agent_folder("gang", "0")
    folder.mkdir(parents=True)
    own_folder().chmod(mode)
    (folder / AGENT_FILE).write_text(f"open({str(tmp_path / 'run')!r}, 'w')")
    assert "the folder isn't private" in end_node("gang", file=str(folder / AGENT_FILE))
    with pytest.raises(PermissionError, match="the folder isn't private"):
        BundleHolder("gang", 0, 1)._keep(b"")
    assert not (tmp_path / "run").exists()


def test_nothing_in_the_folder_of_another_user_is_run_or_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    if os.geteuid() != 0:
        pytest.skip("only root makes folders of other users")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    folder = agent_folder("gang", "0")
    folder.mkdir(parents=True, mode=0o700)
    (folder / AGENT_FILE).write_text(f"open({str(tmp_path / 'run')!r}, 'w')")
    os.chown(own_folder(), 65534, 65534)
    assert BundleHolder("gang", 0, 1).end() == ""
    assert (folder / AGENT_FILE).exists()
    assert not (tmp_path / "run").exists()

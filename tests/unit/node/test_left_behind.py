"""What an agent that was killed has left on its node, and who removes it."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import pytest

from drumbeat.launchers import mpi
from drumbeat.launchers.container_command import ContainerEngine
from drumbeat.model import folder_layout
from drumbeat.model.agent import Enrolment, Phase
from drumbeat.model.errors import EngineError
from drumbeat.model.plan import InputPlan, Plan
from drumbeat.model.roster import Member, Roster
from drumbeat.node.agent import cleanup
from drumbeat.node.agent.agent import Agent
from drumbeat.node.agent.next_step import RoundFacts, phase
from drumbeat.node.environments import wheels
from drumbeat.node.environments.garbage_collection import collect
from drumbeat.node.host.gangs import Gangs
from drumbeat.node.images import container_engine
from drumbeat.node.images.image_builder import ImagePlace
from drumbeat.node.inputs.input_stager import InputStager
from drumbeat.node.launchers.mpi import folder as mpi_folder
from drumbeat.node.platform import child_processes, completion_marks
from drumbeat.node.platform.server_link import ServerLink

pytestmark = pytest.mark.feature("F6")

NOW = 1_800_000_000.0

PODMAN = """#!/bin/sh
echo "$CONTAINERS_STORAGE_CONF: $*" >>{folder}/asked
case "$1 $2" in
    "info --format") echo {folder}/tmp ;;
    "ps --all") cat {folder}/there 2>/dev/null || true ;;
    "rm --force") [ -e {folder}/dead ] && rm -f {folder}/there; touch {folder}/dead ;;
    "image inspect") [ -e {folder}/image ] ;;
    "images --quiet") [ ! -e {folder}/image ] || echo c0ffee; [ ! -e {folder}/dumb ] ;;
    "image rm") [ -e {folder}/used ] || rm -f {folder}/image ;;
esac
"""


@pytest.fixture
def podman(tmp_path: Path) -> ContainerEngine:
    """It doesn't find a container dead at the first try. there: its containers. image: it has the image."""
    program = tmp_path / "podman"
    program.write_text(PODMAN.format(folder=tmp_path))
    program.chmod(0o755)
    return ContainerEngine(str(program), "podman", "0:0")


def test_containers_of_a_gang_that_was_ended_by_force_are_removed_with_it(
    tmp_path: Path, podman: ContainerEngine, monkeypatch: pytest.MonkeyPatch
):
    root = tmp_path / "gangs" / "j.1" / "0" / "root"
    root.mkdir(parents=True)
    with monkeypatch.context() as patch:
        patch.setenv("CONTAINERS_STORAGE_CONF", "/of/the/node")
        (tmp_path / "tmp").mkdir()
        scratch = Path(container_engine.scratch(podman, str(root)))
        (scratch / "blob").touch()
        assert container_engine.scratch(podman, str(root)) == str(scratch), "the same for each agent of the attempt"
    (tmp_path / "there").write_text("c0ffee\n")
    Gangs(tmp_path / "gangs", leave_s=0.0).stop("j.1")
    asked = (tmp_path / "asked").read_text().splitlines()
    which = f"/of/the/node: ps --all --quiet --filter label=drumbeat.root={root}"
    assert asked[1:] == [which, "/of/the/node: rm --force c0ffee"] * 2 + [which]
    assert not scratch.exists()
    assert not root.exists()


DOCKER = """#!/bin/sh
case "$1" in
    ps) [ -e {folder}/mute ] && exec sleep 60; cat {folder}/there 2>/dev/null || true ;;
    rm) [ ! -e {folder}/stuck ] && rm -f {folder}/there ;;
esac
"""


@pytest.fixture
def docker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """An attempt's folder with a container. mute: the engine hangs. stuck: it removes nothing."""
    program = tmp_path / "docker"
    program.write_text(DOCKER.format(folder=tmp_path))
    program.chmod(0o755)
    monkeypatch.setattr(container_engine, "_PAUSES", (0.0, 0.0))
    (tmp_path / "there").write_text("c0ffee\n")
    root = tmp_path / "0" / "root"
    root.mkdir(parents=True)
    container_engine.note(ContainerEngine(str(program), "docker", "0:0"), str(root))
    return str(root)


def test_containers_of_an_engine_that_hangs_for_a_while_are_gone_in_the_end(
    docker: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(container_engine, "_CLEAR_S", 0.5)
    monkeypatch.setattr(container_engine, "_AGAIN_S", 0.0)
    (tmp_path / "mute").touch()
    said: list[str] = []

    def say(why: str) -> None:
        said.append(why)
        (tmp_path / "mute").unlink()
        monkeypatch.setattr(container_engine, "_CLEAR_S", 15.0)

    container_engine.clear_all(docker, say)
    which = f"docker ps --all --filter label=drumbeat.root={docker}"
    assert said == [f"docker doesn't say whether a container of this job remains: {which}"]
    assert not (tmp_path / "there").exists()


def test_unremovable_container_is_named_and_the_round_ends(
    docker: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    (tmp_path / "stuck").touch()
    monkeypatch.setattr(container_engine, "GIVE_UP_S", 0.0)
    why = "docker doesn't remove container c0ffee of this job, which may still run: docker rm --force c0ffee"
    with pytest.raises(EngineError) as given_up:
        container_engine.clear_all(docker, lambda _: pytest.fail("it isn't asked again"))
    assert given_up.value.what == why
    agent = Agent(Enrolment("j", 1, 0, (), "s", docker, "/c", Plan("j", "e", "pytorch", 1, 1, "true", ())))
    here = agent._facts.round = RoundFacts(1, started=True, over=True, clearing=True, logs_sent=True)
    assert phase(agent._facts) is Phase.RUNNING
    agent._containers._on_clearing(here, why)
    assert agent._facts.detail == f"the end of the round waits: {why}"
    agent._containers._on_cleared(here, given_up.value)
    assert (phase(agent._facts), agent._facts.detail) == (Phase.ENDED, "")
    assert [one.sentence for one in agent._mounts.messages()] == [why]
    monkeypatch.setattr("sys.argv", ["ending", docker])
    assert cleanup.main() == 1
    assert why in capsys.readouterr().err


def test_unremovable_podman_container_delays_no_round(docker: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "stuck").touch()
    (tmp_path / "docker").rename(tmp_path / "podman")
    note = tmp_path / "0" / container_engine.NOTE
    note.write_text(note.read_text().replace("/docker", "/podman"))
    with pytest.raises(EngineError) as given_up:
        container_engine.clear_all(docker, lambda _: pytest.fail("it isn't asked again"))
    assert given_up.value.what == "podman doesn't remove container c0ffee of this job: podman rm --force c0ffee"


def test_processes_of_a_killed_node_task_are_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    held = tmp_path / "root" / "errands" / "environment"
    held.mkdir(parents=True)
    with subprocess.Popen(["sleep", "60"]) as left:
        from drumbeat.node.host import processes

        (held / "hold.json").write_text(json.dumps({"first": left.pid, "birth": processes.birth(left.pid)}))
        monkeypatch.setattr("sys.argv", ["ending", str(tmp_path / "root")])
        assert cleanup.main() == 0
        assert left.wait(10) == -9
    assert not (held / "hold.json").exists()


def test_an_image_that_was_built_and_not_marked_goes_and_one_that_is_in_use_stays(
    tmp_path: Path, podman: ContainerEngine
):
    place = ImagePlace(str(tmp_path / "images" / "k"), podman)
    (tmp_path / "images").mkdir()
    for name in ("image", "used", "dumb", "images/k.failed", "images/k.lock"):
        (tmp_path / name).touch()
    place.forget()
    assert (tmp_path / "images" / "k.failed").exists(), "a container is of it: it is looked at again"
    (tmp_path / "used").unlink()
    place.forget()
    assert (tmp_path / "images" / "k.failed").exists(), "nobody can tell whether it is gone"
    (tmp_path / "dumb").unlink()
    place.forget()
    assert not (tmp_path / "image").exists()
    assert list((tmp_path / "images").iterdir()) == []
    assert ": image rm localhost/drumbeat:k" in (tmp_path / "asked").read_text()


def test_remains_of_a_killed_builder_are_removed_once(tmp_path: Path):
    (tmp_path / "k.requirements.txt").touch()
    (tmp_path / "k.requirements.txt.constraints").touch()
    assert collect(str(tmp_path), NOW) == [str(tmp_path / "k")]
    assert collect(str(tmp_path), NOW) == []


def test_a_wheel_that_was_not_finished_goes_after_a_day_unless_somebody_builds_it(tmp_path: Path):
    now = (tmp_path / "left.part").parent.stat().st_mtime
    for name, age_s in (("left.part", 2 * 86400), ("built.part", 2 * 86400), ("fresh.part", 60), ("whole", 2 * 86400)):
        (tmp_path / name).mkdir()
        os.utime(tmp_path / name, (now - age_s, now - age_s))
    with (tmp_path / "built.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        wheels.collect(str(tmp_path), now)
    left = sorted(path.name for path in tmp_path.iterdir() if path.is_dir())
    assert left == ["built.part", "fresh.part", "whole"]


def test_a_round_whose_ranks_were_refused_leaves_nothing_in_the_machines_memory(tmp_path: Path):
    member = Member(0, "h", "10.0.0.1", str(tmp_path), "/keep")
    first = Roster(1, 1, (member,), port=29511)
    note = str(tmp_path / "mpi")
    mpi_folder.note(note, first, 0)
    folder = Path(mpi.place(first))
    folder.mkdir(0o700, exist_ok=True)
    (folder / "node.0").touch()
    mpi_folder.note(note, first, 0)
    assert folder.exists(), "the same round, by the agent that came after"
    (folder / "node.0").unlink()  # An agent was killed while it cleared it.
    mpi_folder.note(note, replace(first, round=2), 0)
    assert not folder.exists()
    mpi_folder.clear_noted(note)
    assert not Path(note).exists()


def test_a_file_whose_agent_was_killed_before_it_was_in_its_place_is_staged(tmp_path: Path):
    wanted = InputPlan("d", "uri_file", "snapshot:" + "0" * 64, "ro_mount", file="x.csv")
    plan = Plan("j", "e", "pytorch", 1, 1, "true", (), inputs=(wanted,))
    enrolment = Enrolment(
        "j", 1, 0, ("unix:/none/server.sock",), "s", str(tmp_path / "root"), str(tmp_path / "c"), plan
    )
    place = Path(folder_layout.input_path(enrolment.root, wanted))
    left = Path(f"{place}.folder")
    left.mkdir(parents=True)
    (left / "x.csv").write_text("1,2\n")
    completion_marks.put(f"{enrolment.root}/staging")
    InputStager(enrolment, ServerLink(enrolment), lambda _: None).stage()
    assert place.read_text() == "1,2\n"
    assert not left.exists()


def test_abandoned_child_is_not_spared():
    child = child_processes.start(["sleep", "60"])
    with child_processes.unchanged() as own:
        assert child.pid in own
    child_processes.leave(child)
    with child_processes.unchanged() as own:
        assert child.pid not in own
    child.kill()
    child.wait()


def test_one_that_outlives_its_kill_is_let_go_of(monkeypatch: pytest.MonkeyPatch):
    """As the kernel keeps one that waits for a disk that doesn't answer."""
    killed: list[subprocess.Popen[bytes]] = []

    def kill(child: subprocess.Popen[bytes]) -> None:
        killed.append(child)

    monkeypatch.setattr(subprocess.Popen, "kill", kill)
    monkeypatch.setattr(child_processes, "_KILLED_S", 0.05)
    began = time.monotonic()
    with pytest.raises(subprocess.TimeoutExpired):
        child_processes.run(["sleep", "20"], 0.05)
    assert time.monotonic() - began < 10
    (child,) = killed
    with child_processes.unchanged() as own:
        assert child.pid not in own
    child.terminate()
    child.wait()

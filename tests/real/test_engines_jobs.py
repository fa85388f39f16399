"""The same job on every engine whose nodes have addresses of their own: how it runs, and how it ends when they fail."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from drumbeat.model.api.jobs import JobView

from .house import until
from .places import PLACES, Place

pytestmark = [pytest.mark.feature("C4", "C7")]

ALL_REDUCE = """
import os, socket, torch, torch.distributed as dist
dist.init_process_group("gloo")
t = torch.tensor([float(os.environ["RANK"]) + 1])
dist.all_reduce(t)
open(f"outputs/{os.environ['RANK']}.txt", "w").write(f"{t.item():g}\\n")
print("sum", t.item(), "of", dist.get_world_size(), "on", socket.gethostname())
dist.destroy_process_group()
"""
COUNTS = (
    "echo $$ up; for i in $(seq 300); do echo line $i; sleep 0.02; done; "
    "while [ ! -e {go} ]; do sleep 0.05; done; echo end"
)


ON_SSH, ON_NETLAB = (
    pytest.mark.parametrize(
        "made",
        [pytest.param(name, marks=() if name == shown else pytest.mark.thorough) for name in sorted(PLACES)],
        indirect=True,
        scope="module",
    )
    for shown in ("ssh", "netlab")
)
"""Of what takes long, `make test` has the one, `make thorough` both."""


@pytest.fixture(scope="module", params=sorted(PLACES))
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with PLACES[request.param](tmp_path_factory.mktemp(request.param)) as place:
        yield place


@pytest.fixture
def place(made: Place) -> Iterator[Place]:
    made.restore()
    yield made
    for job in made.house.client.list():
        if job.state not in ("completed", "failed", "canceled"):
            made.house.client.cancel(job.name, discard=True)
    made.restore()
    until(lambda: made.processes() == [], what="the end of every process on the nodes")


def submitted(place: Place, command: str, nodes: int = 2, **keys: str) -> str:
    file = place.house.job_file(
        command=f'"{command}"', compute=place.compute, resources=f"{{instance_count: {nodes}}}", **keys
    )
    return place.house.client.submit(file).name


def ended(place: Place, job: str) -> JobView:
    found = place.house.client.wait(job, 120)
    assert found is not None, place.house.client.get(job).sentence
    return found


def counting(place: Place, job: str) -> None:
    """Returns once both ranks have printed something."""
    until(lambda: all("line 20\n" in place.house.logs(job).get(rank, "") for rank in (0, 1)))


@pytest.fixture
def go(place: Place) -> Iterator[Path]:
    file = place.house.folder / "go"
    file.unlink(missing_ok=True)
    yield file
    file.touch()


WHOLE = [f"line {i}" for i in range(1, 301)]


@ON_NETLAB
@pytest.mark.feature("L1", "J5")
def test_ranks_on_three_nodes_meet_and_their_outputs_come_home(place: Place, tmp_path: Path):
    place.house.script(ALL_REDUCE)
    job = submitted(place, "python t.py", 3, code=".", distribution="{type: pytorch, process_count_per_instance: 1}")
    assert ended(place, job).state == "completed", place.house.logs(job)
    assert {rank: text.splitlines()[-1] for rank, text in place.house.logs(job).items()} == {
        rank: f"sum 6.0 of 3 on {place.nodes[rank]}" for rank in range(3)
    }
    place.house.client.download(job, tmp_path, under="outputs/")
    assert {file.name: file.read_text() for file in tmp_path.rglob("*.txt")} == {f"{r}.txt": "6\n" for r in range(3)}


@pytest.mark.feature("F6")
def test_cancel_gives_the_grace_time_and_leaves_nothing(place: Place):
    command = "trap 'echo saved; exit 0' TERM; (setsid sleep 7117 &); echo up; while :; do sleep 0.05; done 2>/dev/null"
    job = submitted(place, command, 3)
    until(lambda: list(place.house.logs(job).values()).count("up\n") == 3)
    place.house.client.cancel(job)
    assert ended(place, job).state == "canceled"
    for text in place.house.logs(job).values():
        assert text.splitlines()[-1] == "saved"  # The shell may say of its `sleep` that it was terminated.
    until(lambda: place.processes() == [])


@pytest.mark.parametrize("made", ["ssh"], indirect=True, scope="module")  # In a netlab, checkpoints go with the job.
def test_job_with_a_deleted_jobs_name_begins_without_its_checkpoints(place: Place):
    command = "ls $DRUMBEAT_CHECKPOINT_DIR; touch $DRUMBEAT_CHECKPOINT_DIR/step; echo begun"
    file = place.house.job_file(command=f'"{command}"', compute=place.compute, resources="{instance_count: 3}")
    file.write_text(f"{file.read_text()}name: again\n")
    for _ in range(2):
        job = place.house.client.submit(file).name  # On every host.
        assert ended(place, job).state == "completed"
        assert place.house.logs(job) == dict.fromkeys(range(3), "begun\n")
        place.house.client.delete(job)


@ON_SSH
@pytest.mark.feature("F5")
@pytest.mark.thorough
def test_the_server_is_killed_and_the_ranks_never_notice(place: Place, go: Path):
    job = submitted(place, COUNTS.format(go=go))
    counting(place, job)
    os.kill(place.house.client.status().pid, signal.SIGKILL)
    place.house.client.status()  # Starts another one.
    go.touch()
    now = ended(place, job)
    assert (now.state, now.attempt, now.round) == ("completed", 1, 1)
    for text in place.house.logs(job).values():
        assert text.splitlines()[1:] == [*WHOLE, "end"]


@pytest.mark.parametrize("made", ["netlab"], indirect=True, scope="module")  # An ssh host would be out of reach, too.
@pytest.mark.feature("F5")
@pytest.mark.thorough
def test_nodes_from_which_the_server_isnt_reached_are_named_and_not_asked_for_without_end(place: Place):
    way = ["ip", "route", "{}", "blackhole", f"{place.lab.gateway}/32"]
    ways = [place.lab.inside(node, way) for node in place.nodes]
    for each in ways:
        subprocess.run([word.format("add") for word in each], check=True)
    try:
        job = submitted(place, "echo up", drumbeat="{lost_after_s: 2}")
        now = ended(place, job)
    finally:
        for each in ways:
            subprocess.run([word.format("del") for word in each], check=True)
    assert (now.state, now.reason, now.attempt) == ("failed", "node_unheard", 3)
    assert "has not called the server at https://" in now.sentence


@ON_NETLAB
@pytest.mark.feature("F5")
def test_a_link_that_is_cut_for_a_while_is_no_reason_to_give_up(place: Place, go: Path):
    job = submitted(place, COUNTS.format(go=go))
    counting(place, job)
    place.lab.set_link(place.nodes[1], is_up=False)
    until(lambda: place.house.client.compute(place.compute).machines[1].unusable or place.compute == "lab")
    place.lab.set_link(place.nodes[1], is_up=True)
    go.touch()
    now = ended(place, job)
    assert (now.state, now.attempt, now.round) == ("completed", 1, 1), now.sentence
    for text in place.house.logs(job).values():
        assert text.splitlines()[1:] == [*WHOLE, "end"]


def runs_again(place: Place, job: str) -> bool:
    now = place.house.client.get(job)
    return (now.attempt, now.state) == (2, "running")


@ON_NETLAB
@pytest.mark.feature("F2")
def test_a_node_that_is_lost_is_replaced_by_another_one(place: Place, go: Path):
    job = submitted(place, COUNTS.format(go=go), drumbeat="{lost_after_s: 20, max_retries: 0}")
    counting(place, job)
    place.switch_off(place.nodes[1])
    until(lambda: runs_again(place, job), 180, "a second attempt")
    again = place.house.client.get(job)
    assert {node.machine for node in again.nodes} == {place.nodes[0], place.nodes[2]}
    assert any("node 1 is gone" in line.sentence for line in place.house.client.story(job))
    go.touch()
    assert ended(place, job).state == "completed"


@ON_SSH
@pytest.mark.feature("F5")
@pytest.mark.thorough
def test_an_agent_that_was_cut_off_and_replaced_is_told_so_and_stops_its_ranks(place: Place, go: Path):
    job = submitted(place, COUNTS.format(go=go), drumbeat="{lost_after_s: 20, max_retries: 0}")
    counting(place, job)
    place.lab.set_link(place.nodes[1], is_up=False)
    until(lambda: runs_again(place, job), 180, "a second attempt")
    place.lab.set_link(place.nodes[1], is_up=True)
    until(lambda: not list(place.gangs(place.nodes[1]).glob(f"{job}.1")), what="the end of the old attempt's gang")
    go.touch()
    now = ended(place, job)
    assert (now.state, now.attempt) == ("completed", 2)


@pytest.mark.feature("F2")
def test_a_rank_that_fails_is_named_and_all_start_again_where_they_are(place: Place):
    command = "[ $DRUMBEAT_ROUND = 2 ] && echo again && exit 0; [ $RANK = 1 ] && exit 5; exec sleep 600"
    job = submitted(place, command, drumbeat="{max_retries: 1}")
    now = ended(place, job)
    assert (now.state, now.attempt, now.round) == ("completed", 1, 2), now.sentence
    assert any("rank 1 on node 1 stopped with exit code 5" in line.sentence for line in place.house.client.story(job))


@ON_NETLAB
@pytest.mark.feature("C3")
def test_a_gang_gets_all_of_its_nodes_or_waits_and_says_what_for(place: Place, go: Path):
    first = submitted(place, f"while [ ! -e {go} ]; do sleep 0.05; done", 2)
    second = submitted(place, "true", 3, distribution="{type: pytorch, process_count_per_instance: 4}")
    # A job that has just ended may still be named, too.
    until(lambda: first in place.house.client.get(second).sentence.partition("held by ")[2])
    assert place.house.client.get(second).reason == "waiting_for_slots"
    go.touch()
    assert [ended(place, job).state for job in (first, second)] == ["completed"] * 2

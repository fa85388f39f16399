"""Launchers that start fewer processes than they were asked for, as their command lines and variables show it."""

import shlex

import pytest

from drumbeat import launchers
from drumbeat.launchers.world_size import Process, verdict
from drumbeat.model.plan import Plan

pytestmark = pytest.mark.feature("L2")

SHELL, TRAIN = "/bin/bash -c whatever", "/env/bin/python -u train.py --num_processes 7"


def a_plan(nodes: int = 1, **more: object) -> Plan:
    return Plan("j", "e", "pytorch", nodes, 1, "run", launchers.ranks("pytorch", nodes, 1), **more)


def chain(*lines: str, ranks: int = 1, **variables: str) -> list[Process]:
    """Each below the one before; the last so many times, with these variables."""
    above = [Process(n + 10, n + 9, tuple(shlex.split(line))) for n, line in enumerate(lines[:-1])]
    last = [Process(n + 100, above[-1].pid, tuple(shlex.split(lines[-1])), variables) for n in range(ranks)]
    return [*above, *last]


ACCELERATE = "/env/bin/python /env/bin/accelerate launch --cpu --num_processes {} train.py"
DEEPSPEED = "/env/bin/python3.11 /env/bin/deepspeed {} train.py"
ON_NODE = "/env/bin/python -u -m deepspeed.launcher.launch --world_info=x train.py"
TORCHRUN = "/env/bin/python -m torch.distributed.run {} train.py"


def test_accelerate_with_too_few_processes_is_reported():
    said = verdict(a_plan(), 0, chain(SHELL, ACCELERATE.format(2), TRAIN, WORLD_SIZE="1"))
    assert said is not None
    assert said.startswith(
        "accelerate was asked for 2 processes, and the world has 1: with --cpu it starts one on each"
    )
    assert "process_count_per_instance: 2" in said
    joined = ACCELERATE.format(2).replace("--num_processes 2", "--num-processes=4")
    assert "asked for 4" in (verdict(a_plan(2), 1, chain(SHELL, joined, TRAIN, WORLD_SIZE="2")) or "")


def test_deepspeed_with_one_default_process_is_reported():
    lines = (SHELL, DEEPSPEED.format(""), ON_NODE, TRAIN)
    said = verdict(a_plan(), 0, chain(*lines, WORLD_SIZE="1"))
    assert said is not None
    assert said.startswith("deepspeed got no number of processes and has started one")
    assert said.endswith("1 confirms that one is intended)")
    assert "--hostfile $DLTS_HOSTFILE" in (verdict(a_plan(2), 0, chain(*lines, WORLD_SIZE="1")) or "")


@pytest.mark.parametrize(
    ("plan", "processes"),
    [
        (a_plan(), chain(SHELL, ACCELERATE.format(1), TRAIN)),
        (a_plan(2), chain(SHELL, ACCELERATE.format(2), TRAIN, WORLD_SIZE="2")),
        (a_plan(), chain(SHELL, DEEPSPEED.format("--num_gpus 1"), ON_NODE, TRAIN, WORLD_SIZE="1")),
        (a_plan(), chain(SHELL, DEEPSPEED.format(""), ON_NODE, TRAIN, ranks=2, WORLD_SIZE="2")),
        (a_plan(gpus_per_node=1), chain(SHELL, DEEPSPEED.format(""), ON_NODE, TRAIN, WORLD_SIZE="1")),
        (a_plan(), chain(SHELL, DEEPSPEED.format("--hostfile=h"), ON_NODE, TRAIN, WORLD_SIZE="1")),
        (a_plan(), chain(SHELL, TORCHRUN.format("--nproc-per-node 1"), TRAIN, WORLD_SIZE="1", GROUP_WORLD_SIZE="1")),
        (a_plan(2), chain(SHELL, TORCHRUN.format("--nnodes 2"), TRAIN, WORLD_SIZE="4", GROUP_WORLD_SIZE="2")),
        (a_plan(2), chain(SHELL, TORCHRUN.format("--nnodes 1:4"), TRAIN, WORLD_SIZE="4", GROUP_WORLD_SIZE="2")),
        (a_plan(2), chain(SHELL, ON_NODE, TRAIN, WORLD_SIZE="2")),
    ],
    ids=[
        "one",
        "one a node",
        "said",
        "two",
        "gpu",
        "hostfile",
        "torchrun one",
        "torchrun",
        "elastic",
        "deepspeed remote",
    ],
)
def test_complete_world_raises_no_message(plan: Plan, processes: list[Process]):
    assert verdict(plan, 0, processes) == ""


def test_world_of_one_node_in_a_larger_job_is_reported():
    told = verdict(
        a_plan(2), 1, chain(SHELL, TORCHRUN.format(""), TRAIN, ranks=2, WORLD_SIZE="2", GROUP_WORLD_SIZE="1")
    )
    assert told == (
        "torchrun has formed a world of 2 on node 1 alone, and the job has 2 nodes, so each trains by itself: give it "
        "--nnodes, --node_rank $NODE_RANK, --master_addr $MASTER_ADDR and --master_port $MASTER_PORT"
    )


@pytest.mark.parametrize(
    ("line", "option"),
    [
        (TORCHRUN.format("--nnodes 3"), "torchrun was asked for 3 nodes, and the job has 2 nodes: it waits"),
        (TORCHRUN.format("--nnodes=3:4"), "Give it --nnodes 2, or the job 3 nodes"),
        (ACCELERATE.format("6 --num-machines 3"), "accelerate was asked for 3 nodes"),
    ],
)
def test_launcher_that_waits_for_missing_nodes_is_reported(line: str, option: str):
    assert option in (verdict(a_plan(2), 0, chain(SHELL, line)) or "")


@pytest.mark.parametrize(
    "processes",
    [
        [],
        chain(SHELL, TRAIN),
        chain(SHELL, "cat"),
        [Process(3, 1, ())],
        chain(SHELL, "torchrun"),
        chain(SHELL, DEEPSPEED.format(""), ON_NODE),
        chain(SHELL, DEEPSPEED.format(""), ON_NODE, "ninja -v"),
    ],
    ids=["nothing", "no launcher", "one word", "no words", "only its name", "not begun", "compiles"],
)
def test_no_verdict_before_a_world_has_formed(processes: list[Process]):
    assert verdict(a_plan(), 0, processes) is None


@pytest.mark.feature("L7")
@pytest.mark.parametrize(
    ("nodes", "per_node", "told", "variables", "is_said"),
    [
        (2, 1, {}, {}, True),
        (1, 2, {}, {}, True),
        (1, 1, {}, {}, False),
        (1, 2, {"HOROVOD_CONTROLLER": "gloo"}, {}, False),
        (1, 2, {}, {"HOROVOD_SIZE": "2"}, False),
        (1, 2, {}, {"OMPI_COMM_WORLD_SIZE": "2"}, False),
    ],
)
def test_unconnected_horovod_ranks_are_reported(
    nodes: int, per_node: int, told: dict[str, str], variables: dict[str, str], is_said: bool
):
    plan = Plan("j", "e", "pytorch", nodes, per_node, "run", launchers.ranks("pytorch", nodes, per_node), told)
    ranks = [Process(100 + n, 1, ("python", "t.py"), variables, is_horovods=True) for n in range(per_node)]
    said = verdict(plan, 0, ranks) or ""
    begin = f"the ranks use Horovod without knowing each other: each of the {nodes * per_node} trains by"
    assert said.startswith(begin) is is_said

"""Checks that a launcher in the job's own command has started the requested processes, on all nodes. Pure.

Some launchers silently start a single process where they find no GPU; others form a separate world on each node. The
world is compared only with the command line's request and the plan's nodes: a command that starts one process on
purpose says so, or requests nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import zip_longest

from drumbeat.launchers import horovod
from drumbeat.model.plan import Plan, RankTable

ABOUT = "world"
"""The subject of these messages."""

_HOROVODS = ("HOROVOD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE")
"""The variables from which Horovod reads the number of ranks: horovodrun's or MPI's."""
VARIABLES = ("WORLD_SIZE", "GROUP_WORLD_SIZE", *_HOROVODS)
"""The variables to read from a process: the size of its world, and the nodes in it (torchrun; Horovod)."""
HOROVOD = ("/horovod/torch/mpi_lib", "/horovod/tensorflow/mpi_lib")
"""Path parts of Horovod's libraries: a process that uses Horovod has one of them loaded."""

_MODULES = {
    "accelerate.commands.launch": "accelerate",
    "accelerate.commands.accelerate_cli": "accelerate",
    "deepspeed.launcher.runner": "deepspeed",
    "deepspeed.launcher.launch": "deepspeed on this node",
    "torch.distributed.run": "torchrun",
    "torch.distributed.launch": "torchrun",
}
_PROGRAMS = {"accelerate": "accelerate", "accelerate-launch": "accelerate", "deepspeed": "deepspeed", "ds": "deepspeed",
             "torchrun": "torchrun"}  # fmt: skip
_COUNTED = ("--num_gpus", "--num_accelerators", "--include", "-i", "--hostfile", "-H", "--autotuning")
"""Options of deepspeed that set the number of processes."""


@dataclass(frozen=True)
class Process:
    """A process below a rank."""

    pid: int
    parent: int
    words: tuple[str, ...]
    """Its command line."""
    variables: dict[str, str] = field(default_factory=dict[str, str])
    """Its values of `VARIABLES`."""
    is_horovods: bool = False
    """Whether it has Horovod loaded."""

    @property
    def launcher(self) -> str:
        """The name of the launcher, "" = the process isn't one."""
        return self._launcher[0]

    @property
    def asked(self) -> tuple[str, ...]:
        """The arguments of the launcher."""
        return self._launcher[1]

    @property
    def is_python(self) -> bool:
        """Whether it is a Python process."""
        return bool(self.words) and _name(self.words[0]).startswith("python")

    @property
    def world(self) -> int:
        """The number of processes in its world; 1 without a variable."""
        size = self.variables.get("WORLD_SIZE", "")
        return int(size) if size.isdecimal() else 1

    @property
    def _launcher(self) -> tuple[str, tuple[str, ...]]:
        rest = list(self.words)
        if self.is_python:
            rest.pop(0)
            while rest and rest[0].startswith("-") and rest[0] != "-m":
                rest.pop(0)
        if rest[:1] == ["-m"]:
            return _MODULES.get(rest[1] if len(rest) > 1 else "", ""), tuple(rest[2:])
        return _PROGRAMS.get(_name(rest[0]) if rest else "", ""), tuple(rest[1:])


def verdict(plan: Plan, node: int, seen: Sequence[Process]) -> str | None:
    """The problem of the world that has formed on a node, "" = none, None = no world yet."""
    if any(each.is_horovods and not each.variables.keys() & {*_HOROVODS} for each in seen):
        return _each_alone(plan)
    if plan.processes_per_node > 1:
        return None
    by_pid = {each.pid: each for each in seen}
    waits = next((sentence for each in seen if not _above(each, by_pid) and (sentence := _waits(plan, each))), "")
    if waits:
        return waits
    by_launcher = [(over, each) for each in seen if (over := _above(each, by_pid))]
    started = [(over, each) for over, each in by_launcher if each.is_python and not each.launcher]
    if not started:
        return None
    launcher = started[0][0]
    world = max(each.world for _, each in started)
    spans = {each.variables.get("GROUP_WORLD_SIZE", "") for _, each in started}
    return _fewer(plan, launcher, world) or _apart(plan, node, launcher, world, spans)


def _above(process: Process, by_pid: dict[int, Process]) -> Process | None:
    """The outermost launcher among a process's ancestors."""
    launcher, above = None, by_pid.get(process.parent)
    while above:
        launcher = above if above.launcher else launcher
        above = by_pid.get(above.parent)
    return launcher


def _waits(plan: RankTable, launcher: Process) -> str:
    """The message about a launcher that waits for more nodes than the job has. torchrun's `2:4` means at least two."""
    option = {"torchrun": "--nnodes", "accelerate": "--num_machines"}.get(launcher.launcher)
    if option is None:
        return ""
    asked = _number(launcher.asked, option, option.replace("_", "-"))
    if asked <= plan.nodes:
        return ""
    have = f"{plan.nodes} nodes" if plan.nodes > 1 else "1 node"
    return (
        f"{launcher.launcher} was asked for {asked} nodes, and the job has {have}: it waits for nodes that never come. "
        f"Give it {option} {plan.nodes}, or the job {asked} nodes: resources: {{instance_count: {asked}}}"
    )


def _each_alone(plan: Plan) -> str:
    """The message about Horovod ranks that don't know each other."""
    if plan.world_size == 1 or horovod.is_served(plan):
        return ""
    return (
        f"the ranks use Horovod without knowing each other: each of the {plan.world_size} trains by "
        "itself. Set distribution: {type: mpi}, or, for a Horovod with Gloo, environment_variables: "
        "{HOROVOD_CONTROLLER: gloo}"
    )


def _fewer(plan: Plan, launcher: Process, world: int) -> str:
    """The message about a world with fewer processes than the launcher was asked for."""
    if launcher.launcher == "accelerate":
        asked = _number(launcher.asked, "--num_processes", "--num-processes")
        if world < asked:
            each = max(1, asked // plan.nodes)
            return (
                f"accelerate was asked for {asked} processes, and the world has {world}: with --cpu it starts one on "
                f"each node, whatever --num_processes says. Use --multi_gpu instead of --cpu, which works "
                f"without GPUs too, or have drumbeat start them: process_count_per_instance: {each}, and python in the "
                "place of accelerate launch"
            )
    is_counted = any(word.partition("=")[0] in _COUNTED for word in launcher.asked)
    if launcher.launcher == "deepspeed" and world == 1 and not is_counted and not plan.gpus_per_node:
        return (
            "deepspeed got no number of processes and has started one, as it does where it finds no GPU: give it "
            "--num_gpus N (also for CPUs; 1 confirms that one is intended)"
            + (" and --hostfile $DLTS_HOSTFILE, and start it on node 0 only" if plan.nodes > 1 else "")
        )
    return ""


def _apart(plan: RankTable, node: int, launcher: Process, world: int, spans: set[str]) -> str:
    """The message about a world of one node in a job of several nodes."""
    if plan.nodes == 1 or not (spans == {"1"} or world < plan.nodes):
        return ""
    fix = {
        "torchrun": "--nnodes, --node_rank $NODE_RANK, --master_addr $MASTER_ADDR and --master_port $MASTER_PORT",
        "accelerate": "--num_machines, --machine_rank $NODE_RANK, --main_process_ip $MASTER_ADDR and "
        "--main_process_port $MASTER_PORT",
        "deepspeed": "--hostfile $DLTS_HOSTFILE on node 0, and nothing to do on the others",
    }
    return (
        f"{launcher.launcher} has formed a world of {world} on node {node} alone, and the job has {plan.nodes} nodes, "
        f"so each trains by itself: give it {fix.get(launcher.launcher, 'the number of nodes')}"
    )


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def _number(words: Sequence[str], *names: str) -> int:
    """The value of an option (2 for `2:4`); 0 = missing, or not a number."""
    for word, following in zip_longest(words, words[1:], fillvalue=""):
        name, is_joined, value = word.partition("=")
        text = (value if is_joined else following).partition(":")[0]
        if name in names and text.isdecimal():
            return int(text)
    return 0

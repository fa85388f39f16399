"""Computes what each node of a job takes: CPU slots by its ranks; devices by its ranks, launcher or instance type.

Pure.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from drumbeat.core.scheduling.resource_needs import Need
from drumbeat.model.errors import SpecError, UnknownNameError
from drumbeat.model.plan import Rank

Size = tuple[int, int]
"""CPU slots and devices, of a machine or of a node."""

INSTANCE_TYPES = ("cpu", "gpu", "gpu:N")
"""The instance types of drumbeat's computes, N a number; names of a cloud need an alias."""

_KIND = re.compile(r"(cpu|gpu)(?::([1-9][0-9]{0,2}))?")
_WITH_GPUS = re.compile(r"(?:(?:standard|basic)[_ ])?n[a-z]*\d|.*gpu", re.IGNORECASE)
"""Azure's sizes with GPUs have names of the family N: `Standard_NC6s_v3`, `Standard_ND40rs_v2`."""


@dataclass(frozen=True)
class InstanceType:
    """The type of node that a job asks for."""

    word: str = ""
    """`cpu` or `gpu`, "" = the job names none."""
    each: int = 0
    """Devices of a node, 0 = the job names no number."""

    @property
    def insists(self) -> bool:
        """Whether the job requires devices."""
        return self.word == "gpu"


@dataclass(frozen=True)
class InstanceTypeAdvice:
    """The facts for advice on an unknown instance type.

    compute: the job's, "" = it isn't known. gpus: the most on one of its machines. ranks: of the job, on each node.
    """

    compute: str = ""
    gpus: int = 0
    ranks: int = 1

    def for_type(self, name: str) -> str:
        """Returns the type that a cloud's instance type most likely stands for, and why if its name doesn't show it."""
        if not _WITH_GPUS.match(name):
            return "cpu"
        if self.compute and not self.gpus:
            return f"cpu (it has GPUs, and compute {self.compute} has none)"
        return f"gpu:{min(self.ranks, self.gpus) if self.gpus else self.ranks}"


def parse_kind(name: str, meaning: str, advice: InstanceTypeAdvice | None = None) -> InstanceType:
    """Returns the type of node that an instance type stands for. Raises UnknownNameError."""
    match = _KIND.fullmatch(meaning.lower())
    if match is None or (match[1] == "cpu" and match[2]):
        target = (advice or InstanceTypeAdvice()).for_type(name)
        raise UnknownNameError(
            f"no instance type named {name!r}; instance types: {', '.join(INSTANCE_TYPES[:-1])} and "
            f"{INSTANCE_TYPES[-1]} (N GPUs on each node)",
            where="resources.instance_type",
            fix=f"Say what it means here: drumbeat alias set instance_type {name} {target}",
        )
    return InstanceType(match[1], int(match[2] or 0))


# --- what a launcher in the command takes -----------------------------------------------------------------------
@dataclass(frozen=True)
class InlineLauncher:
    """A launcher, such as torchrun, that the job's own command runs on each node."""

    name: str
    count: int | None
    """Processes that it starts on a node, None = as many as it finds GPUs."""
    option: str = ""
    """The option that sets the count, as the command has it."""


_BEGIN = (
    r"(?:^|[;&|(\n]|(?:^|\s)(?:if|then|elif|else|while|until|do|\{|!|exec|env|time|nohup)\s)"
    r"[^\S\n]*(?:\w+=[^\s;&|()]*\s+)*"
    r"(?:(?:conda|poetry|uv)\s+run\s+(?:-\S+\s+\S+\s+)*)?(?:[\w./~$-]*/)?"
)
"""Where a shell looks for a command. No part matches past the next such place, so that a long command is read once."""
_LAUNCHERS = {
    "torchrun": rf"{_BEGIN}torchrun(?=\s)|\s-m\s+torch\.distributed\.(?:run|launch)(?=\s)",
    "accelerate": rf"{_BEGIN}accelerate(?:\s+launch|-launch)(?=\s)|\s-m\s+accelerate\.commands\.launch(?=\s)",
    "deepspeed": rf"{_BEGIN}deepspeed(?=\s+[^=\s])|\s-m\s+deepspeed\.launcher\.runner(?=\s)",
    "horovodrun": rf"{_BEGIN}horovodrun(?=\s)",
}
_COUNTS = {
    "torchrun": r"--?nproc[-_]per[-_]node",
    "accelerate": r"--num[-_]processes",
    "deepspeed": r"--num_(?:gpus|accelerators)",
    "horovodrun": r"(?:-np|--num-proc)",
}
_OF_ALL_NODES = ("accelerate", "horovodrun")
"""Launchers whose count is that of all nodes together."""
_ALONE = ("torchrun",)
"""Launchers that start one process by default."""


def find_launcher(command: str, nodes: int) -> InlineLauncher | None:
    """Returns the first launcher in a command, and its count; None if there is none, or one for CPUs."""
    first = min(
        ((match.end(), name) for name, form in _LAUNCHERS.items() if (match := re.search(form, command))), default=None
    )
    if first is None:
        return None
    end, name = first
    rest = re.split(r";|&&|\|\||(?<!\\)\n", command[end:])[0]
    if name == "accelerate" and re.search(r"\s--(?:cpu|use_cpu)(?=\s|$)", rest):
        return None
    count = re.search(rf"\s[\"']?({_COUNTS[name]})[\s=]+(\S+)", f" {rest}")
    if count is None:
        return InlineLauncher(name, 1 if name in _ALONE else None)
    value = count[2].strip("\"'")
    number = int(value) if value.isdecimal() else None
    if value == "cpu":
        return None
    if number is not None and name in _OF_ALL_NODES:
        number = -(-number // nodes)
    return InlineLauncher(name, number, f"{count[1]} {value}")


# --- what it takes ----------------------------------------------------------------------------------------------
def fullest(ranks: Sequence[Rank]) -> int:
    """Returns the largest number of these ranks on one node."""
    return max(Counter(rank.node for rank in ranks).values(), default=0)


def share(sizes: Sequence[int], nodes: int) -> int:
    """Returns the most that each of so many nodes can have of machines of these sizes."""
    return next((most for most in range(max(sizes, default=0), 0, -1) if sum(s // most for s in sizes) >= nodes), 0)


def size_up(
    nodes: int, table: Sequence[Rank], machines: Sequence[Size], kind: InstanceType, launcher: InlineLauncher | None
) -> tuple[Need, list[str]]:
    """A CPU slot per rank, a device per rank that computes, where there are enough of them or the job insists.

    A node takes as many devices as its instance type says; else, where a launcher of the user's own starts the
    processes, as many as that one starts. Each node is asked for as the fullest of them. Second come notes. Raises
    SpecError.
    """
    cpus = sum(one for one, _ in machines)
    alone, notes = len(table) > cpus, list[str]()
    devices, note = _devices(nodes, [rank for rank in table if rank.computes], [gpus for _, gpus in machines], kind,
                             launcher)  # fmt: skip
    if note:
        notes.append(note)
    if alone:
        notes.append(f"{len(table)} ranks share {cpus} CPU slots, so the job runs alone on its compute")
    return Need(nodes, fullest(table), devices, alone=alone), notes


def _devices(
    nodes: int, computing: Sequence[Rank], gpus: Sequence[int], kind: InstanceType, launcher: InlineLauncher | None
) -> tuple[int, str]:
    """Returns the devices of each node, and a note on them."""
    of_ranks = fullest(computing)
    if kind.word == "cpu":
        return 0, ""
    if kind.each:
        if kind.each < of_ranks:
            what = f"gpu:{kind.each} is a node with {kind.each} GPUs, and the job starts {of_ranks} ranks on a node"
            raise SpecError(what, where="resources.instance_type", fix=f"Say gpu:{of_ranks}, or fewer ranks.")
        return kind.each, ""
    if launcher and of_ranks == 1:
        return _of_launcher(nodes, gpus, kind, launcher)
    if kind.insists or sum(gpus) >= len(computing):
        return of_ranks, ""
    if not sum(gpus):
        return 0, ""
    return 0, (
        f"{len(computing)} ranks and {sum(gpus)} GPUs: the ranks run on CPUs and see no GPU "
        "(resources.instance_type: gpu insists on one GPU per rank)"
    )


def _of_launcher(nodes: int, gpus: Sequence[int], kind: InstanceType, launcher: InlineLauncher) -> tuple[int, str]:
    most = share(gpus, nodes)
    count = max(int(kind.insists), most) if launcher.count is None else launcher.count
    if count <= most or kind.insists:
        why = f"'s {launcher.option} says so" if launcher.count else " takes all that it finds"
        return count, f"each node gets {count} GPUs: {launcher.name}{why}" if count > 1 else ""
    if not sum(gpus):
        return 0, ""
    have = "1 GPU" if most == 1 else f"{most} GPUs"
    return 0, (
        f"{launcher.name} starts {count} processes on each node ({launcher.option}), and no node can have more than "
        f"{have}: they run on CPUs and see no GPU (resources.instance_type: gpu insists)"
    )

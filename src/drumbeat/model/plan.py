"""The plan of a job, made once by the server and carried out by its agents."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from itertools import count

from drumbeat.model.conditions import JobCondition
from drumbeat.model.shares import SharePlan


@dataclass(frozen=True)
class Rank:
    """One row of the rank table. `rank` counts over the whole job, `local_rank` within the node.

    serves: it is there for the others and never ends by itself (a parameter server, a Ray node): when those that don't
    serve have all ended with exit code 0, it is stopped, and how it ends is no failure. computes: it uses the job's
    GPUs; one that doesn't sees none.
    """

    rank: int
    node: int
    local_rank: int
    role: str = "worker"
    serves: bool = False
    computes: bool = True


@dataclass(frozen=True)
class InputPlan:
    """A file or folder that must be on the node before the ranks start.

    uri: `file:///path` on a file system that the node shares with the submitter, `snapshot:<sha256>` kept by the
    server, or any other, whose files the server lists for the node and says where to fetch. mode: `ro_mount` and
    `direct` use a `file:` path in place, `download` copies it to the node; a remote one is staged (with `ro_mount` used
    in place where the node sees its very folder), but with `direct` the ranks get the address as it is. file: what the
    file of a `uri_file` is called where it came from. in_folder: a remote one's store is a folder, which the node may
    see too. mount: a remote one is mounted where a node can, else staged. evaluated: of an `mltable`, the files that
    its table names. appears: the path where the ranks find it, "" = where it lies.
    """

    name: str
    type: str
    uri: str
    mode: str
    file: str = ""
    in_folder: bool = False
    mount: bool = False
    evaluated: bool = False
    appears: str = ""

    @property
    def is_remote(self) -> bool:
        """Whether each node fetches it from a store."""
        return self.mode != "direct" and not self.uri.startswith(("file:", "snapshot:"))


@dataclass(frozen=True)
class OutputPlan:
    """A named place where the ranks write. mode: `upload` and `rw_mount`, both kept when the job ends; with `direct`
    the ranks write to the store themselves, by a link that the server signs for them.

    uri: where it is put then, "" = it stays in the job's folder. asset: the data asset that it becomes when the job has
    completed, "" = none; version: of it, "" = the next one. appears: the path where the ranks find it, "" = where it
    lies.
    """

    name: str
    type: str
    mode: str
    uri: str = ""
    asset: str = ""
    version: str = ""
    appears: str = ""


@dataclass(frozen=True)
class SourceBuild:
    """How each node builds a package from its source, and which of the wheels that it has built before will do.

    package: whose version stands in the requirements. variables: set for the build. cxx_standard: the oldest C++ that
    it is compiled as, 0 = what it asks for. requires: lines as pip takes them, installed for the build alone. programs:
    that the build needs on PATH. linked_to: packages of the environment, and programs, whose versions a wheel is good
    for.
    """

    package: str
    variables: dict[str, str] = field(default_factory=dict[str, str])
    cxx_standard: int = 0
    requires: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()
    linked_to: tuple[str, ...] = ()


CONSTRAINT = "--constraint "
"""Begins a line of requirements that only limits versions: the line goes on with one of a constraints file."""


@dataclass(frozen=True)
class PythonEnvironment:
    """A Python environment that each node makes once, keeps, and shares among jobs.

    key: names its content; the same for two jobs that ask for the same. name: for users. python: `3.11`, "" = any.
    requirements: lines as pip takes them, but for `CONSTRAINT`. conda: packages for conda beside these, where a node
    has one; without it they can't be had. channels: of conda. source: the file that it was written in; lines: the line
    there, counted from 1, of each requirement. builds: of the requirements that nodes build from source.
    """

    key: str
    name: str
    python: str = ""
    requirements: tuple[str, ...] = ()
    conda: tuple[str, ...] = ()
    channels: tuple[str, ...] = ()
    source: str = ""
    lines: tuple[int, ...] = ()
    builds: tuple[SourceBuild, ...] = ()


BUILT = "localhost/drumbeat"
"""The name of images that nodes build; the tag is the beginning of `ImageBuild.key`."""


@dataclass(frozen=True)
class ImageBuild:
    """An image that each node makes of a Dockerfile once, keeps, and shares among jobs.

    key: names its content, which is the folder and the Dockerfile in it. context: SHA-256 of the snapshot with that
    folder. dockerfile: the path in there; source: the same as a user calls it. bases: images that it is made from.
    pushed_as: its name in the registry to which node 0 pushes it and from which the other nodes pull it; "" = each node
    builds its own.
    """

    key: str
    context: str
    dockerfile: str = "Dockerfile"
    source: str = "Dockerfile"
    bases: tuple[str, ...] = ()
    pushed_as: str = ""


@dataclass(frozen=True)
class Container:
    """An image that the ranks of a node run in. args: words for the engine that runs it, as the job gave them.

    build: how a node makes it, None = it is pulled. registries: names of those whose credentials the nodes get for it.
    """

    image: str
    args: tuple[str, ...] = ()
    build: ImageBuild | None = None
    registries: tuple[str, ...] = ()

    @property
    def pulled(self) -> tuple[str, ...]:
        """The images that are pulled."""
        return self.build.bases if self.build else (self.image,)


@dataclass(frozen=True)
class RayCluster:
    """A Ray cluster of the job's own; with `address`, one that runs already and isn't the job's.

    cpus: that Ray may share out on each node. port: of the head, 0 = one that node 0 holds. dashboard: whether the head
    serves one; dashboard_port: where, 0 = at a port that node 0 holds. head_args, node_args: more words for
    `ray start`.
    """

    cpus: int = 1
    port: int = 0
    address: str = ""
    dashboard: bool = False
    dashboard_port: int = 0
    head_args: tuple[str, ...] = ()
    node_args: tuple[str, ...] = ()


class Growth(StrEnum):
    """When an elastic job takes nodes that become free."""

    AT_CHECKPOINT = "at_checkpoint"
    AT_ONCE = "at_once"


@dataclass(frozen=True)
class Elastic:
    """The numbers of nodes between which an elastic job runs."""

    min_nodes: int
    nodes: int
    """The number that its user asked for."""
    max_nodes: int
    grow: Growth = Growth.AT_CHECKPOINT

    def __str__(self) -> str:
        when = "at once" if self.grow is Growth.AT_ONCE else "at the next checkpoint"
        return f"{self.min_nodes} to {self.max_nodes}, {self.nodes} asked for; grows {when}"


@dataclass(frozen=True)
class ServicePlan:
    """An interactive service beside the ranks of a job."""

    name: str
    type: str
    """`tensor_board`, `jupyter_lab`, `vs_code`, `ssh`, or a word of the job's own."""
    port: int = 0
    """Where it listens on its node's loopback interface, 0 = where the agent says."""
    is_everywhere: bool = False
    """Whether each node has one; else node 0 alone."""
    log_dir: str = ""
    """The folder that TensorBoard shows, relative to the job's folder."""
    command: str = ""
    """Shell text that starts a service of the job's own, "" = the job's ranks serve it themselves."""


@dataclass(frozen=True)
class RankTable:
    """The ranks of a job, and the command that each runs."""

    job: str
    experiment: str
    launcher: str
    nodes: int
    processes_per_node: int
    command: str
    ranks: tuple[Rank, ...]
    variables: dict[str, str] = field(default_factory=dict[str, str])
    literals: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def world_size(self) -> int:
        """Ranks in the job, those that serve among them; a preview may leave out the table of them."""
        return len(self.ranks) or self.nodes * self.processes_per_node

    @cached_property
    def workers(self) -> tuple[int, ...]:
        """The ranks whose end is the job's: all but those that serve."""
        return tuple(one.rank for one in self.ranks if not one.serves)

    def on(self, node: int) -> tuple[Rank, ...]:
        """The ranks of a node, in order."""
        return self._ranks_by_node.get(node, ())

    @cached_property
    def _ranks_by_node(self) -> dict[int, tuple[Rank, ...]]:
        by_node: defaultdict[int, list[Rank]] = defaultdict(list)
        for one in self.ranks:
            by_node[one.node].append(one)
        return {node: tuple(ranks) for node, ranks in by_node.items()}

    @property
    def indices(self) -> dict[int, int]:
        """Maps each rank to its index within its role."""
        counted: defaultdict[str, count[int]] = defaultdict(count)
        return {one.rank: next(counted[one.role]) for one in self.ranks}

    @property
    def names(self) -> dict[int, str]:
        """By rank, what it is called beside its number: `chief`, `worker 1`; nothing where all have one role."""
        roles = Counter(one.role for one in self.ranks)
        if len(roles) < 2:
            return {}
        indices = self.indices
        return {one.rank: f"{one.role} {indices[one.rank]}" if roles[one.role] > 1 else one.role for one in self.ranks}


@dataclass(frozen=True)
class StagedFiles:
    """What a node has on its disk before the ranks start, and where they write."""

    inputs: tuple[InputPlan, ...] = ()
    outputs: tuple[OutputPlan, ...] = ()
    code: str | None = None


@dataclass(frozen=True)
class RankRuntime:
    """What the ranks run in."""

    path_first: tuple[str, ...] = ()
    compute: str = "local"
    environment: str = "current"
    python: PythonEnvironment | None = None
    container: Container | None = None
    prepare: str = ""
    gpus_per_node: int = 0


@dataclass(frozen=True)
class Deadlines:
    """How long a job waits for its ranks and nodes."""

    grace_s: float = 30.0
    lost_after_s: float = 600.0


@dataclass(frozen=True)
class LauncherOptions:
    """The network that a launcher uses, and its own options."""

    network: str = ""
    mpi_options: tuple[str, ...] = ()
    ray: RayCluster | None = None


@dataclass(frozen=True)
class NodeOptions:
    """What nodes do beside starting ranks."""

    system_metrics: bool = True
    mesh: dict[str, int] = field(default_factory=dict[str, int])
    warm_start: bool = True
    shares: tuple[SharePlan, ...] = ()
    max_log_mib: int = 0
    """Beyond it, the oldest of the job's logs are dropped; 0 = all are kept."""


@dataclass(frozen=True)
class HangRules:
    """When ranks count as hanging, and what follows."""

    hang_after_s: float = 0.0
    """Seconds of silence after which a hang is looked for; 0 = never."""
    on_hang: str = "tell"
    """What follows a hang: `tell`, `dump` or `restart`."""
    rendezvous_timeout_s: float = 0.0
    """Seconds without a sign of work after which ranks that are missing at the rendezvous are given up; 0 = never."""
    is_rendezvous_strict: bool = False
    """Whether the job itself set that time: the round also ends where absent ranks may yet come."""


@dataclass(frozen=True)
class Resumption:
    """The checkpoints of an earlier job with which a job begins: a copy of them is in its own folder."""

    job: str
    """The earlier job."""
    folders: tuple[str, ...]
    """Where its nodes had them; a node takes the first of these folders that has files."""
    step: int | None = None
    """The step of the last one; None = it isn't known."""
    is_per_machine: bool = False
    """Whether each machine has a folder of its own: another one may have what this one lacks."""


@dataclass(frozen=True)
class Plan(HangRules, NodeOptions, LauncherOptions, Deadlines, RankRuntime, StagedFiles, RankTable):
    """Everything that the agents need to know of a job; the same object that `drumbeat plan` prints.

    processes_per_node: the most on one node; `ranks` tells how many each has. command: shell text in which literals
    are substituted and `${{inputs.x}}`, `${{outputs.x}}` of files remain; each node puts its own paths there.
    variables: set in every rank. literals: the job's literal inputs, as text. environment: what the ranks run in, as
    a user calls it; python: what a node has to make for it, None = nothing. path_first: folders that go to the
    front of PATH; where a node makes an environment, that one's own instead. prepare: shell text that each node runs
    before the ranks of its first round. gpus_per_node: devices that each node's ranks see, 0 = none. network:
    interface or subnet between the nodes, `tcp` or `tcp:` before it = no InfiniBand; "" = found. mpi_options: words
    added to the `mpirun` line. ray: of the launcher of that name. system_metrics: whether nodes log what they and their
    ranks use of the machine. mesh: sizes by dimension, outermost first; empty = none. warm_start: whether nodes prepare
    interpreters for the ranks of the next round. shares: what each node must have mounted. elastic: None = `nodes` is
    fixed; else `nodes` and `ranks` are those of the present attempt. services: beside
    the ranks. preflight: whether the nodes check themselves and their links before the ranks start.
    """

    elastic: Elastic | None = None
    services: tuple[ServicePlan, ...] = ()
    preflight: bool = False
    checkpoint_copies_gib: int = 0
    """The most that copies of whole files in the checkpoint folder may take, 0 = none are made."""
    clean_rounds: bool = False
    """Whether each later round begins with the code folder and the outputs as the first one had them."""
    fresh_nodes: bool = False
    """Whether the job takes over no nodes of another job, and no other job takes over its own."""
    conditions: tuple[JobCondition, ...] = ()
    """When the job ends early, or someone is notified; `ConditionState.condition` is a place among them."""
    resumption: Resumption | None = None
    """With which checkpoints the job begins; None = with none."""

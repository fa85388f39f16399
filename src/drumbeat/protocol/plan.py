"""What will run: the plan of a job, decided once by the server and carried out by its agents."""

from __future__ import annotations

from dataclasses import dataclass, field


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
    `direct` use a `file:` path in place, `download` copies it to the node; a remote one is staged, but with `direct`
    the ranks get the address as it is. file: what the file of a `uri_file` is called where it came from.
    """

    name: str
    type: str
    uri: str
    mode: str
    file: str = ""

    @property
    def is_remote(self) -> bool:
        """Whether each node fetches it from a store."""
        return self.mode != "direct" and not self.uri.startswith(("file:", "snapshot:"))


@dataclass(frozen=True)
class OutputPlan:
    """A named place where the ranks write. mode: `upload` and `rw_mount`, both kept when the job ends.

    uri: where it is put then, "" = it stays in the job's folder. asset: the data asset that it becomes when the job has
    completed, "" = none; version: of it, "" = the next one.
    """

    name: str
    type: str
    mode: str
    uri: str = ""
    asset: str = ""
    version: str = ""


@dataclass(frozen=True)
class PythonEnvironment:
    """A Python environment that each node makes once, keeps, and shares among jobs.

    key: names its content; the same for two jobs that ask for the same. name: for people. python: `3.11`, "" = any.
    requirements: lines as pip takes them. conda: packages for conda beside these, where a node has one; without it they
    can't be had. channels: of conda. source: the file that it was written in; lines: the line there, counted from 1, of
    each requirement.
    """

    key: str
    name: str
    python: str = ""
    requirements: tuple[str, ...] = ()
    conda: tuple[str, ...] = ()
    channels: tuple[str, ...] = ()
    source: str = ""
    lines: tuple[int, ...] = ()


@dataclass(frozen=True)
class Container:
    """An image that the ranks of a node run in. args: words for the engine that runs it, as the job gave them."""

    image: str
    args: tuple[str, ...] = ()


@dataclass(frozen=True)
class Plan:
    """Everything that the agents need to know of a job; the same object that `drumbeat plan` prints.

    processes_per_node: the most on one node; `ranks` tells how many each has. command: shell text in which literals are substituted and `${{inputs.x}}`, `${{outputs.x}}` of files remain; each
    node puts its own paths there. variables: set in every rank. literals: the job's literal inputs, as text.
    environment: what the ranks run in, as a person calls it; python: what a node has to make for it, None = nothing.
    path_first: folders that go to the front of PATH; where a node makes an environment, that one's own instead.
    prepare: shell text that each node runs before the ranks of its first round. gpus_per_node: devices that each node's
    ranks see, 0 = none. network: interface or subnet between the nodes, `tcp` or `tcp:` before it = no InfiniBand; "" =
    found. mpi_options: words added to the `mpirun` line.
    """

    job: str
    experiment: str
    launcher: str
    nodes: int
    processes_per_node: int
    command: str
    ranks: tuple[Rank, ...]
    variables: dict[str, str] = field(default_factory=dict[str, str])
    literals: dict[str, str] = field(default_factory=dict[str, str])
    inputs: tuple[InputPlan, ...] = ()
    outputs: tuple[OutputPlan, ...] = ()
    code: str | None = None
    path_first: tuple[str, ...] = ()
    compute: str = "local"
    environment: str = "current"
    python: PythonEnvironment | None = None
    container: Container | None = None
    prepare: str = ""
    gpus_per_node: int = 0
    grace_s: float = 30.0
    lost_after_s: float = 600.0
    network: str = ""
    mpi_options: tuple[str, ...] = ()

    @property
    def world_size(self) -> int:
        """Ranks in the job, those that serve among them; a preview may leave out the table of them."""
        return len(self.ranks) or self.nodes * self.processes_per_node

    @property
    def workers(self) -> tuple[int, ...]:
        """The ranks whose end is the job's: all but those that serve."""
        return tuple(one.rank for one in self.ranks if not one.serves)

    def on(self, node: int) -> tuple[Rank, ...]:
        """The ranks of a node, in order."""
        return tuple(one for one in self.ranks if one.node == node)

    def index(self, rank: Rank) -> int:
        """The how manieth of its role a rank is, counted from 0."""
        return sum(one.role == rank.role for one in self.ranks[: rank.rank])

"""What the server says of jobs, files and itself: the API's own keys, as values."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from drumbeat.protocol.agent import WAITS
from drumbeat.protocol.plan import Plan
from drumbeat.protocol.process import ProcessSpec
from drumbeat.protocol.states import TERMINAL, State


@dataclass(frozen=True)
class StoryLine:
    """One line of a job's story; n counts from 1."""

    n: int
    at: datetime
    state: str
    reason: str
    sentence: str
    attempt: int = 0
    round: int = 0


PREPARING_OR_KEEPING = frozenset({State.STAGING, State.FINALIZING})
"""States in which nodes bring something here or there, and tell how far they are."""


@dataclass(frozen=True)
class ExitView:
    """How a rank ended. at: seconds since the epoch, by its node's clock."""

    rank: int
    code: int | None
    signal: int | None
    at: float = 0.0


@dataclass(frozen=True)
class NodeView:
    """A node of the present attempt, as its agent last told; phase "" until it has enrolled."""

    node: int
    machine: str = ""
    host: str = ""
    address: str = ""
    phase: str = ""
    detail: str = ""
    error: str = ""
    lost: bool = False
    exits: tuple[ExitView, ...] = ()


@dataclass(frozen=True)
class ObservedView:
    """The engine's own word, and when it was seen."""

    word: str
    at: datetime


@dataclass(frozen=True)
class VerdictView:
    """Why a job or a round ended."""

    reason: str
    sentence: str
    rank: int | None = None
    node: int | None = None
    code: int | None = None
    tail: str = ""
    advice: str = ""


@dataclass(frozen=True)
class FailureView:
    """A round that went wrong."""

    attempt: int
    round: int
    at: datetime
    verdict: VerdictView


@dataclass(frozen=True)
class OutputView:
    """An output that goes into a store, or gets a name. problem: why it isn't in its place, or not yet.

    place: `to_come`, `under_way`, `in_place`, `failed` or `kept`: in the job's folder only, as the job ended. uri:
    where it goes, "" = nowhere. asset: `name:version`, once it has one. size: bytes.
    """

    name: str
    place: str
    uri: str = ""
    asset: str = ""
    files: int = 0
    size: int = 0
    problem: str = ""

    @property
    def said(self) -> str:
        """Why it isn't where it was to go, or what goes on; "" = nothing is wrong with it, or it is to come."""
        if self.place == "failed":
            return f"output {self.name} isn't in its place: {self.problem}"
        if self.place != "under_way":
            return ""
        if self.problem:
            return f"output {self.name} isn't in its place yet: {self.problem}; it is tried again"
        return f"output {self.name} is being put in its place"


@dataclass(frozen=True)
class JobView:
    """A job. story: only in what `Client.get` gives. exit_code: None until it has ended.

    notice: what keeps its logs from being stored just now; they aren't lost.
    """

    name: str
    state: str
    reason: str
    sentence: str
    submitted_at: datetime
    display_name: str = ""
    description: str = ""
    experiment: str = ""
    observed: ObservedView | None = None
    attempt: int = 0
    round: int = 0
    nodes: tuple[NodeView, ...] = ()
    world_size: int = 1
    node_count: int = 1
    processes_per_node: int = 1
    launcher: str = ""
    compute: str = ""
    environment: str = ""
    command: str = ""
    started_at: datetime | None = None
    ended_at: datetime | None = None
    stop_at: datetime | None = None
    deadline: datetime | None = None
    verdict: VerdictView | None = None
    exit_code: int | None = None
    failures: tuple[FailureView, ...] = ()
    tags: dict[str, str] = field(default_factory=dict[str, str])
    properties: dict[str, str] = field(default_factory=dict[str, str])
    archived: bool = False
    priority: int = 0
    notice: str = ""
    outputs: tuple[OutputView, ...] = ()
    story: tuple[StoryLine, ...] = ()

    @property
    def doing(self) -> str:
        """What goes on: what a node tells while inputs come or results are kept, what becomes of outputs, and the job's
        sentence.
        """
        if amiss := [one.said for one in self.outputs if one.said]:
            return "; ".join([self.sentence, *amiss])
        told = [node for node in self.nodes if node.detail and not node.error and not node.lost]
        if self.state not in PREPARING_OR_KEEPING or not told:
            return self.sentence
        node = next((each for each in told if WAITS in each.detail), told[0])
        detail = f"node {node.node}: {node.detail}" if self.node_count > 1 else node.detail
        return f"{detail}; {self.sentence}" if self.state == State.FINALIZING else detail

    @property
    def has_ended(self) -> bool:
        """Whether nothing happens to it any more."""
        return self.state in TERMINAL

    def is_aside(self, rank: int) -> bool:
        """Whether a rank is a part of Ray itself: its log is shown where it is asked for."""
        return self.launcher == "ray" and rank > 0


@dataclass(frozen=True)
class LogPiece:
    """A piece of one rank's log, or of the node's own: then rank is -1.

    position: grows over all pieces of a job. offset: in the log's file, in bytes.
    """

    position: int
    attempt: int
    round: int
    node: int
    rank: int
    offset: int
    text: str


@dataclass(frozen=True)
class End:
    """The job has ended, and all that it wrote was told."""

    state: str
    exit_code: int | None


Event = StoryLine | JobView | LogPiece | End


@dataclass(frozen=True)
class PreviewView:
    """What would run. never: the job could never start, as `queue` says; then neither ranks nor processes are told."""

    plan: Plan
    processes: tuple[ProcessSpec, ...]
    staged: tuple[str, ...] = ()
    queue: str = ""
    notes: tuple[str, ...] = ()
    script: str = ""
    line: str = ""
    never: bool = False


@dataclass(frozen=True)
class FileView:
    """A file of a job that can be fetched. path: in the job's folder. size: bytes."""

    path: str
    size: int


@dataclass(frozen=True)
class MachineView:
    """A machine of a compute. state: idle, running or unusable. word: the engine's own. unusable: why it is."""

    name: str
    cpus: int
    gpus: tuple[str, ...] = ()
    memory_mib: int = 0
    state: str = "idle"
    word: str = ""
    unusable: str = ""


@dataclass(frozen=True)
class HeldView:
    """What one node of a job's attempt holds of a machine."""

    job: str
    attempt: int
    node: int
    machine: str
    cpus: int
    gpus: tuple[str, ...] = ()


@dataclass(frozen=True)
class ComputeView:
    """A compute: what it has, who holds what, how many jobs wait. trouble: why no job can start there now.

    spec: what a person wrote; empty for one that is always there.
    """

    name: str
    engine: str
    machines: tuple[MachineView, ...]
    held: tuple[HeldView, ...] = ()
    waiting: int = 0
    trouble: str = ""
    spec: dict[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True)
class AliasView:
    """What a cloud's name means here."""

    kind: str
    name: str
    target: str


@dataclass(frozen=True)
class DoorView:
    """Where agents on other hosts are listened for. ends: when the certificate does that is shown there now."""

    address: str
    port: int
    ends: datetime


@dataclass(frozen=True)
class StatusView:
    """Who answers, and how it is. idle_stop_s: it stops after that long with nothing to do; 0 = never. others: servers
    over the same store.
    """

    version: str
    host: str
    pid: int
    home: str
    url: str
    uptime_s: float
    unfinished: tuple[str, ...] = ()
    publishing: tuple[str, ...] = ()
    idle_s: float = 0.0
    idle_stop_s: float = 0.0
    doors: tuple[DoorView, ...] = ()
    others: tuple[str, ...] = ()

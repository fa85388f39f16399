"""Messages between an agent and the server.

Both directions carry a level, not a change: the agent reports the phase that it is in, the server the one that it
should reach. A message that is lost, doubled or late therefore does no harm.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from drumbeat.model import wire
from drumbeat.model.conditions import ConditionState
from drumbeat.model.plan import Plan
from drumbeat.model.preflight import NodeCheck
from drumbeat.model.roster import Member, Roster

LEFT_OUT = "[… more was said here …]"
"""Separates an error further up from the last lines, in the end of a log."""

LISTED_BYTES = 256 << 20
"""The largest list of a node's outputs, which comes in one request: a million files with paths of 170 bytes."""


VOID = "void"
"""As `AgentStatus.handover`: two agents of the node have shown different proofs, so that neither is believed."""


class Phase(StrEnum):
    """The phases of an agent, in order."""

    ENROLLED = "enrolled"
    STAGING = "staging"
    READY = "ready"
    RUNNING = "running"
    ENDED = "ended"
    UPLOADING = "uploading"
    UPLOADED = "uploaded"


@dataclass(frozen=True)
class RankExit:
    """How one rank ended, as its supervisor saw it."""

    rank: int
    code: int | None
    """The exit code, None = a signal ended the rank."""
    signal: int | None
    at: float
    """Seconds since the epoch, by the node's clock."""
    order: int
    """Counts the exits on this node."""
    is_stopped: bool = field(default=False, metadata={wire.KEY: "told"})
    """Whether the supervisor was stopping the rank when it ended."""
    error: str = ""
    """A failure before the user's command ran (no such folder, no such shell)."""
    launcher: str = ""
    """How the launcher that the rank depends on ended."""
    tail: str = ""
    """The end of the rank's log."""
    memory_limit_mib: int = 0
    """The memory limit of the node at which the kernel killed the rank, 0 = it didn't."""
    end_mark: str = ""
    """The words by which the rank's Python marked the program's good end before a signal ended the rank while its
    interpreter shut down (`node.environments.program_end`); "" = the rank ended in another way."""

    @property
    def is_failure(self) -> bool:
        """Whether the rank ended in any way but with exit code 0, before its program had ended well."""
        return self.code != 0 and not self.end_mark


@dataclass(frozen=True)
class NodeMessage:
    """A lasting fact about a node that users should know."""

    subject: str = field(metadata={wire.KEY: "about"})
    """A job has one event for each subject."""
    sentence: str


@dataclass(frozen=True)
class ServiceStatus:
    """The state of one service on a node."""

    name: str
    is_running: bool
    problem: str = ""
    """Why it doesn't run, "" = it does, or its round is over."""


@dataclass(frozen=True)
class AgentStatus:
    """The state of a node's agent."""

    phase: Phase
    round: int
    """The round that the phase belongs to."""
    member: Member
    port: int = 0
    """Reserved on this node for the round's rendezvous."""
    exits: tuple[RankExit, ...] = ()
    """Exits of the round."""
    detail: str = ""
    """Progress in words."""
    error: str = ""
    """Why staging, starting or uploading can't succeed; "" = no error."""
    lost: bool = False
    """The supervisor died, and with it the ranks whose exits are missing; or they are abandoned."""
    is_abandoned: bool = field(default=False, metadata={wire.KEY: "abandoned"})
    """The supervisor ended the ranks since their agent had been away for longer than `Plan.lost_after_s`."""
    serial: int = 0
    """Grows with each status of a node, also from one agent to the next: the server ignores a lower one."""
    is_preempted: bool = field(default=False, metadata={wire.KEY: "is_taken"})
    """The machine asked the agent to leave."""
    more_ports: tuple[int, ...] = ()
    """Reserved beside `port`, as many as the launcher needs."""
    messages: tuple[NodeMessage, ...] = field(default=(), metadata={wire.KEY: "remarks"})
    is_transient: bool = field(default=False, metadata={wire.KEY: "is_passing"})
    """The error is that something can't be reached, and may pass."""
    builds_environment: bool = False
    """The node builds the environment of its ranks or pulls their image, or waits until another job has done so."""
    is_share_missing: bool = field(default=False, metadata={wire.KEY: "is_lacking"})
    """The error is that this machine lacks a share of its compute, or the checkpoints that the job continues from;
    another one may have them."""
    is_silent: bool = False
    """The ranks of the round have given no sign of work for `Plan.hang_after_s`."""
    is_idle: bool = False
    """A rank of the round has given no sign of work for `Plan.rendezvous_timeout_s`."""
    services: tuple[ServiceStatus, ...] = ()
    is_unusable: bool = False
    """The error is one of this machine, which no job can run on; another one may do."""
    preflight: NodeCheck | None = None
    """What the node measured before the first round; None = not yet, or there is no pre-flight."""
    is_restarted: bool = False
    """`lost`, because the machine was restarted."""
    has_checkpoint: bool = False
    """The round is over, and the job's folder of checkpoints has files."""

    handover: str = ""
    """The SHA-256 of what this agent keeps in its memory alone, and shows to be told of the next job on its node; "" =
    the agent can't go on with another job."""
    conditions: tuple[ConditionState, ...] = ()
    """What the node has seen of the job's conditions."""

    @property
    def has_sent_logs(self) -> bool:
        """Whether the server has all logs of the round."""
        return self.phase in (Phase.ENDED, Phase.UPLOADING, Phase.UPLOADED)


class Order(StrEnum):
    """The goals that the server sets for an agent."""

    PREPARE = "prepare"
    RUN = "run"
    STOP = "stop"
    UPLOAD = "upload"
    LEAVE = "leave"


@dataclass(frozen=True)
class NodeRequest:
    """A request of the server to one node: the agent answers it at once, whatever its order is."""

    id: str
    """Identifies the request in its answer."""
    kind: str
    """Selects what the agent does (`drumbeat.node.agent.request_handler`)."""
    fields: dict[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True)
class Takeover:
    """What the agent of a job that has ended needs to go on as the agent of the next one, on the same node."""

    job: str
    attempt: int
    secret: str
    """As in `Enrolment`, and the new attempt's own."""
    peer_secret: str
    plan: Plan
    root: str
    """The name of the attempt's folder, beside that of the attempt that has ended."""


@dataclass(frozen=True)
class Directive:
    """The server's instruction to an agent.

    PREPARE: stage what is missing, reserve a port, report READY. RUN: start the ranks of `round` with `roster`. STOP:
    SIGTERM now, SIGKILL after `grace_s`; a round that was never started is ENDED at once. UPLOAD: send the outputs.
    LEAVE: end what is left and exit; with `next`, go on with that job instead.
    """

    order: Order
    attempt: int
    round: int
    roster: Roster | None = None
    grace_s: float = 30.0
    servers: tuple[str, ...] = ()
    """The server's addresses from now on, as in `Enrolment`; () = unchanged."""
    requests: tuple[NodeRequest, ...] = ()
    """Requests that the agent hasn't received yet."""
    is_canceled: bool = False
    """Whether the job was canceled: what remains to be sent doesn't hold up its end for long."""
    next: Takeover | None = None
    """The job that takes over the node; None = none does."""

    @property
    def key(self) -> str:
        """Identifies the directive: an agent that has it isn't sent it again."""
        return f"{self.order_key}:canceled" if self.is_canceled else self.order_key

    @property
    def order_key(self) -> str:
        """The key that agents compute that don't know `is_canceled`."""
        return f"{self.order}:{self.attempt}:{self.round}"


WAITS = " waits: "
"""In a status' `detail`, comes before the reason why the agent makes no progress."""


ANNOUNCED = "servers.json"
"""The file in the root of an attempt with the server's addresses as last announced, a JSON list: by the server, or by
the engine where the server is at another address than the agents know."""


@dataclass(frozen=True)
class Enrolment:
    """The file that an engine gives to an agent: the server's addresses, and the node. Mode 0600, for its `secret`."""

    job: str
    attempt: int
    node: int
    servers: tuple[str, ...]
    """Addresses of the server, tried in order: `https://host:port` or `unix:/path`.

    Enrolments by the version before may have `http://127.0.0.1:port`, which this one doesn't call.
    """
    secret: str
    """The node's own, which the server takes for this node of this attempt alone."""
    root: str
    """The attempt's folder on this node."""
    checkpoints: str
    """A folder that outlives the attempt."""
    plan: Plan
    host: str = ""
    address: str = ""
    """The address at which the other nodes reach this one; "" = the agent finds it."""
    gpus: tuple[str, ...] = ()
    ca: str = ""
    """The only certificate (PEM) that the agent trusts for https."""
    keeps_spares: bool = False
    """Whether warm workers may wait on the node for the next job: no scheduler has lent it for this job alone."""
    peer_secret: str = ""
    """The secret by which nodes of the attempt authenticate each other; "" = `secret` is the whole attempt's, as
    versions before gave it."""
    preflight: NodeCheck | None = None
    """What the node measured for the job whose nodes this one has taken over."""

    @property
    def shared_secret(self) -> str:
        """The secret that only the nodes of the attempt know."""
        return self.peer_secret or self.secret

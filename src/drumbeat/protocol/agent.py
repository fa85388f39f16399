"""What an agent and the server say to each other.

Both directions carry a level, not a change: the agent says how far it is, the server says how far it should be. A
message that is lost, doubled or late therefore does no harm.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from drumbeat.protocol.plan import Plan
from drumbeat.protocol.roster import Member, Roster

LEFT_OUT = "[… more was said here …]"
"""Stands in the end of a log between an error further up and the last lines."""

LISTED_BYTES = 256 << 20
"""How long the list of a node's outputs may be, which comes in one request: a million files with paths of 170 bytes."""


class Phase(StrEnum):
    """How far an agent is; in order."""

    ENROLLED = "enrolled"
    STAGING = "staging"
    READY = "ready"
    RUNNING = "running"
    ENDED = "ended"
    UPLOADING = "uploading"
    UPLOADED = "uploaded"


@dataclass(frozen=True)
class RankExit:
    """How one rank ended, as its keeper saw it.

    code: exit code, or None when a signal ended it. at: seconds since the epoch by the node's clock. order: counts the
    exits on this node. told: it ended after the keeper had been told to stop it. error: a failure before the user's
    command ran (no such folder, no such shell). launcher: how the launcher ended that it couldn't do without. tail: the
    end of its log.
    """

    rank: int
    code: int | None
    signal: int | None
    at: float
    order: int
    told: bool = False
    error: str = ""
    launcher: str = ""
    tail: str = ""

    @property
    def is_failure(self) -> bool:
        """Ended by anything but exit code 0."""
        return self.code != 0


@dataclass(frozen=True)
class Remark:
    """Something of a node that a person should know of, and that stays true. about: what; a job tells of each once."""

    about: str
    sentence: str


@dataclass(frozen=True)
class AgentStatus:
    """How far the agent of a node is.

    round: that the phase belongs to. port: held on this node for the round's rendezvous; more_ports: beside it, as
    many as its launcher needs. exits: of that round. serial: grows with each status of a node, also from one agent to
    the next; one that comes after a higher one is old news. detail: progress in words. error: why staging, starting
    or uploading can't succeed; "" = well. is_passing: it is that something can't be reached. lost: the keeper vanished,
    and with it the ranks whose exits are missing.
    is_taken: its machine told the agent to go. remarks: on how the node has what the ranks need.
    """

    phase: Phase
    round: int
    member: Member
    port: int = 0
    exits: tuple[RankExit, ...] = ()
    detail: str = ""
    error: str = ""
    lost: bool = False
    serial: int = 0
    is_taken: bool = False
    more_ports: tuple[int, ...] = ()
    remarks: tuple[Remark, ...] = ()
    is_passing: bool = False

    @property
    def has_sent_logs(self) -> bool:
        """Whether the server has all logs of the round."""
        return self.phase in (Phase.ENDED, Phase.UPLOADING, Phase.UPLOADED)


class Order(StrEnum):
    """How far an agent should be."""

    PREPARE = "prepare"
    RUN = "run"
    STOP = "stop"
    UPLOAD = "upload"
    LEAVE = "leave"


@dataclass(frozen=True)
class Directive:
    """What the server wants of an agent.

    PREPARE: stage what is missing, hold a port, say READY. RUN: start the ranks of `round` with `roster`. STOP: SIGTERM
    now, SIGKILL after `grace_s`; a round that was never started is ENDED at once. UPLOAD: send the outputs. LEAVE: end
    what is left and go. `key` names the directive: an agent that holds it needn't be told again. servers: where the
    agent can call from now on, as in its enrolment; () = nothing new is known.
    """

    order: Order
    attempt: int
    round: int
    roster: Roster | None = None
    grace_s: float = 30.0
    servers: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """Same key, same directive."""
        return f"{self.order}:{self.attempt}:{self.round}"


WAITS = " waits: "
"""In a status' `detail`: what stands behind it is why nothing goes on."""


@dataclass(frozen=True)
class Enrolment:
    """The file that an engine gives to an agent: where its server is, and who it is. Mode 0600, for `secret` is in it.

    servers: addresses of the server, tried in order, `http://host:port` or `https://…`; ca: the certificate (PEM) that
    https is checked with, and no other. root: the attempt's folder on this node.
    checkpoints: a folder that outlives the attempt. address: of this node as the others reach it; "" = find it out.
    """

    job: str
    attempt: int
    node: int
    servers: tuple[str, ...]
    secret: str
    root: str
    checkpoints: str
    plan: Plan
    host: str = ""
    address: str = ""
    gpus: tuple[str, ...] = ()
    ca: str = ""

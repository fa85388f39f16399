"""Messages between an agent and its supervisor, in lines of JSON.

The agent sends requests; the supervisor sends its whole state at once and whenever it changes. Either may be of an
earlier version: names and values on the wire stay, a new field has a default, and unknown fields are ignored.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, cast

from drumbeat.model import wire


@dataclass(frozen=True)
class ProcessStart:
    """A process for a supervisor or a node task to start: files, arguments and variables, without their purpose."""

    argv: tuple[str, ...]
    cwd: str
    log: str
    """The file that stdout and stderr are added to."""
    env: dict[str, str]
    rank: int = -1
    """-1 = no rank, but a launcher's own process or a node task's command."""
    role: str = ""
    joins: str = ""
    """The socket at which the launcher's own child hands over to the rank, "" = there is none."""


@dataclass(frozen=True)
class WarmPoolOrder:
    """What a supervisor prepares for the next round while the ranks of this one run."""

    cold: str = ""
    """Why it prepares no interpreters, "" = it does."""
    per_round: tuple[str, ...] = ()
    """Variables that may have another value in the next round. A trailing `*` stands for any ending."""
    fixed: tuple[str, ...] = ()
    """Variables that must not, although they are among those: the shell has read them by then."""
    outlives: bool = False
    """Whether interpreters that are ready when the ranks end well stay for another job (`Retire`)."""


@dataclass(frozen=True)
class SupervisorTimeouts:
    """Sets how long the supervisor goes on without an agent, and the grace time of its ranks then."""

    lost_after_s: float
    grace_s: float


@dataclass(frozen=True)
class StartRound:
    """Starts a round; one that has been started already changes nothing."""

    round: int
    ranks: tuple[ProcessStart, ...]
    starter: ProcessStart | None = None
    """The launcher's own process on this node, None = it has none."""
    warm_pool: WarmPoolOrder | None = field(default=None, metadata={wire.KEY: "standbys"})
    """None = of an agent that has no warm starts."""
    services: tuple[ProcessStart, ...] = ()
    """Processes of the job's services; `role` is the service's name."""


@dataclass(frozen=True)
class SessionStart:
    """A command that a user runs beside a rank."""

    id: str
    rank: int
    """The rank whose variables and folder it gets."""
    argv: tuple[str, ...]
    log: str
    """The file for what its program itself reports."""
    left_out: tuple[str, ...] = ()
    """Those of the rank's variables that it doesn't get."""


@dataclass(frozen=True)
class StartSessions:
    """Starts those of the sessions that were not started in this round yet. Each ends by itself."""

    round: int
    sessions: tuple[SessionStart, ...]


@dataclass(frozen=True)
class StopRound:
    """Sends SIGTERM to all of the round, and SIGKILL after the grace time."""

    round: int
    grace_s: float


@dataclass(frozen=True)
class LeaveNode:
    """Stops the round, then ends the supervisor."""

    grace_s: float
    is_spare: bool = False
    """Whether it is for a spare supervisor, not for one that an attempt has."""


@dataclass(frozen=True)
class Retire:
    """Before `LeaveNode`: a supervisor with interpreters becomes a spare one, in another folder."""

    folder: str
    """Where the supervisor's folder goes."""
    idle_s: float
    """How long it waits there for an agent."""
    is_handover: bool = False
    """Whether another job takes over the node: the folder is that of its attempt, and no interpreter is needed."""


@dataclass(frozen=True)
class Adopt:
    """Makes a spare supervisor the supervisor of an attempt, whose agent has moved its folder."""

    folder: str


@dataclass(frozen=True)
class Probe:
    """Requests the state, which shows that the supervisor is alive."""


SupervisorRequest = SupervisorTimeouts | StartRound | StartSessions | StopRound | LeaveNode | Probe | Retire | Adopt

REQUESTS: dict[str, type[SupervisorRequest]] = {
    "patience": SupervisorTimeouts,
    "start": StartRound,
    "sessions": StartSessions,
    "stop": StopRound,
    "leave": LeaveNode,
    "ping": Probe,
    "retire": Retire,
    "adopt": Adopt,
}
"""Requests by their name on the wire, under `do`."""
_WORDS = {request: word for word, request in REQUESTS.items()}


@dataclass(frozen=True)
class SupervisedExit:
    """How one rank ended: `model.agent.RankExit` without the end of the log, which the supervisor doesn't read."""

    rank: int
    code: int | None
    signal: int | None
    at: float
    order: int
    is_stopped: bool = field(default=False, metadata={wire.KEY: "told"})
    error: str = ""
    launcher: str = ""


@dataclass(frozen=True)
class SidecarExit:
    """How a process beside the ranks ended."""

    name: str
    """Of a service, or the id of a session."""
    code: int | None = None
    signal: int | None = None
    error: str = ""
    """Why it could not be started."""


@dataclass(frozen=True)
class SupervisorState:
    """The state of a supervisor, as its agent sees it."""

    pid: int
    round: int
    """-1 = no round was ever started."""
    running: tuple[int, ...] = ()
    exits: tuple[SupervisedExit, ...] = ()
    over: bool = True
    stopping: bool = False
    lost: bool = False
    """A supervisor before this one died, and the ranks whose exits are missing died with it; or they are abandoned."""
    is_abandoned: bool = field(default=False, metadata={wire.KEY: "abandoned"})
    """The supervisor ended the ranks since their agent didn't come back."""
    trouble: str = ""
    held_by: str = ""
    """How the supervisor confines the ranks (`node/supervisor/confinement.py`)."""
    warm: tuple[int, ...] = ()
    """Ranks of this round that began in warm workers."""
    cold: str = ""
    """Why the others didn't, "" = it is the first round."""
    warm_workers: tuple[int, ...] = field(default=(), metadata={wire.KEY: "standbys"})
    """Pids of the interpreters that wait for the next round."""
    sidecars: tuple[str, ...] = field(default=(), metadata={wire.KEY: "companions"})
    """Services and sessions of this round that run."""
    sidecar_exits: tuple[SidecarExit, ...] = field(default=(), metadata={wire.KEY: "companion_exits"})
    is_restarted: bool = field(default=False, metadata={wire.KEY: "restarted"})
    """The machine was restarted while the ranks ran whose exits are missing."""
    preparing: tuple[int, ...] = ()
    """Pids of the interpreters that aren't ready yet."""


@dataclass(frozen=True)
class NodeTaskRequest:
    """One command for a node task to run."""

    argv: tuple[str, ...]
    cwd: str
    log: str
    env: dict[str, str]
    grace_s: float = 0.0
    kept: tuple[int, ...] = field(default=())
    """Files that stay open until the command and its children have ended."""

    @property
    def process(self) -> ProcessStart:
        """The command as a process to start."""
        return ProcessStart(self.argv, self.cwd, self.log, self.env)


@dataclass(frozen=True)
class NodeTaskResult:
    """How a node task's command ended."""

    code: int
    """The exit code; negative = the signal that ended the command."""
    error: str = ""
    """Why the command could not be started, "" = it was."""


def encode_request(request: SupervisorRequest) -> bytes:
    """Returns the request as one line."""
    return _line({"do": _WORDS[type(request)], **wire.to_wire(request)})


def decode_request(line: bytes) -> SupervisorRequest | None:
    """Returns the request in a line; None = a request that this version doesn't have."""
    message = cast("dict[str, Any]", json.loads(line))
    kind = REQUESTS.get(message.get("do", ""))
    try:
        return wire.from_wire(kind, message) if kind else None
    except ValueError:
        return None


def encode_state(state: SupervisorState) -> bytes:
    """Returns the state as one line."""
    return _line({**wire.to_wire(state), "exits": [exit_to_wire(each) for each in state.exits]})


def decode_state(line: bytes) -> SupervisorState:
    """Returns the state in a line. Raises ValueError."""
    return wire.loads(SupervisorState, line)


def exit_to_wire(ended: SupervisedExit) -> dict[str, Any]:
    """Returns an exit as it is on the wire and on disk, where `launcher` appears only if it isn't empty."""
    form = wire.to_wire(ended)
    if not ended.launcher:
        del form["launcher"]
    return form


def _line(message: dict[str, Any]) -> bytes:
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"

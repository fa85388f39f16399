"""A host that is reached by a command, and its status: its last answer, the gangs that it still has to end, its
departure.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from drumbeat.model.api.computes import Machine, NodeState

LEAVE_NOTICE_S = 300.0
"""How long before a machine's end its ranks are told to save and stop."""
LEFT_AFTER_S = 10.0
"""After this time of silence a machine that announced its departure is gone."""

Answer = dict[str, Any]


class Reach(Protocol):
    """Runs the host program on one machine."""

    def ask(self, verb: str, request: Mapping[str, object]) -> Answer:
        """The answer of `drumbeat.node.host` there. Raises UnreachableError, and EngineError with its refusal."""
        ...


@dataclass(frozen=True)
class Host:
    """A machine as its compute file describes it. cpus, gpus: None = as detected there. folder: may begin with `~`.
    checkpoints: a folder for what outlives attempts. address: at which the other nodes reach it; "" = it detects it.
    """

    name: str
    reach: Reach
    folder: str
    checkpoints: str
    cpus: int | None = None
    gpus: tuple[str, ...] | None = None
    address: str = ""
    leaving: str | None = None
    """The file or command that announces its departure, "" = only the system's own; None = it isn't asked."""


@dataclass
class HostStatus:
    """The status of a machine. answer: its last answer. gone: by gang and node, as of `seen_at`.

    to_end: gangs that were stopped while it didn't answer, or couldn't be ended; `stuck` says why. must_sweep: unwanted
    gangs must be ended. swept: gangs that were swept since the last report, even those still in `to_end`. is_followed:
    it has its thread.

    judged_at, strange: when the store was last asked which of its gangs are wanted, and which weren't.
    """

    host: Host
    answer: Answer = field(default_factory=Answer)
    gone: dict[str, dict[int, str]] = field(default_factory=dict[str, dict[int, str]])
    seen_at: float = 0.0
    trouble: str = "it has not answered yet"
    to_end: set[str] = field(default_factory=set[str])
    stuck: str = ""
    must_sweep: bool = False
    judged_at: float = -math.inf
    strange: set[str] = field(default_factory=set[str])
    swept: set[str] = field(default_factory=set[str])
    announced: dict[str, tuple[str, ...]] = field(default_factory=dict[str, "tuple[str, ...]"])
    """By gang, the server's addresses of which its agents there have been told."""
    sweeping: threading.Lock = field(default_factory=threading.Lock)
    is_followed: bool = False
    must_look: threading.Event = field(default_factory=threading.Event)
    has_looked: threading.Event = field(default_factory=threading.Event)

    @property
    def _notice(self) -> Answer:
        notice: Answer | None = self.answer.get("leaving")
        return notice or {}

    @property
    def leaves(self) -> str:
        """Why it will soon be gone, by its last answer; "" = it stays."""
        return str(self._notice.get("why", ""))

    @property
    def leaves_now(self) -> bool:
        """Whether its ranks must stop now to end cleanly."""
        in_s = self._notice.get("in_s")
        return bool(self.leaves) and (in_s is None or in_s <= LEAVE_NOTICE_S)

    @property
    def has_left(self) -> bool:
        """Whether it announced its departure and has been silent since."""
        return bool(self.leaves and self.trouble) and time.monotonic() - self.seen_at > LEFT_AFTER_S

    def swept_since(self) -> set[str]:
        """The gangs that were swept since the last call."""
        with self.sweeping:
            swept, self.swept = self.swept, set[str]()
        return swept


def describe_machine(status: HostStatus) -> Machine:
    """The machine as the host last described it."""
    host, answer = status.host, status.answer
    state = NodeState.PREEMPTED if status.has_left else NodeState.LEAVING if status.leaves else NodeState.IDLE
    left = (
        f"it has left: {status.leaves}" if status.has_left else f"it leaves: {status.leaves}" if status.leaves else ""
    )
    return Machine(
        host.name,
        answer.get("cpus", 0) if host.cpus is None else host.cpus,
        tuple(answer.get("gpus", ())) if host.gpus is None else host.gpus,
        answer.get("memory_mib", 0),
        word="answers" if not status.trouble else "silent",
        unusable=left
        or status.trouble
        or status.stuck
        or answer.get("unusable", "")
        or ("it is still ending earlier gangs" if status.to_end or status.must_sweep else ""),
        is_awaited=not status.has_looked.is_set(),
        state=state,
    )

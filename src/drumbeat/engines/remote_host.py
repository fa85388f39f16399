"""A host that is reached by a command, and what is known of it: its last answer, what it still has to end, its end."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from drumbeat.model.api.computes import Machine, NodeState

LEAVE_NOTICE_S = 300.0
"""So long before a machine's end the ranks on it are told to save and stop."""
LEFT_AFTER_S = 10.0
"""After so long a silence a machine that said that it leaves is gone."""

Answer = dict[str, Any]


class Reach(Protocol):
    """The way to one machine."""

    def ask(self, verb: str, request: Mapping[str, object]) -> Answer:
        """What `drumbeat.node.host` answers there. Raises UnreachableError, and EngineError with its refusal."""
        ...


@dataclass(frozen=True)
class Host:
    """A machine as its compute file describes it. cpus, gpus: None = what is found there. folder: may begin with `~`.

    checkpoints: a folder for what outlives attempts. address: as the other nodes reach it; "" = it finds out.
    """

    name: str
    reach: Reach
    folder: str
    checkpoints: str
    cpus: int | None = None
    gpus: tuple[str, ...] | None = None
    address: str = ""
    leaving: str | None = None
    """The file or command by which it says that it leaves, "" = the system's own only; None = it isn't asked."""


@dataclass
class KnownHost:
    """What is known of a machine. told: its last word on itself. gone: by gang and node, as of `seen_at`.

    to_end: gangs that were stopped while it didn't answer, or couldn't be ended, for which `stuck` says why.
    must_sweep: what no job wants is to be ended. swept: which gangs that were, those too that `to_end` has still, since
    that was last reported. is_followed: has its thread.
    judged_at, strange: when it was last asked what is wanted of what is there, and what wasn't.
    """

    host: Host
    told: Answer = field(default_factory=Answer)
    gone: dict[str, dict[int, str]] = field(default_factory=dict[str, dict[int, str]])
    seen_at: float = 0.0
    trouble: str = "it has not answered yet"
    to_end: set[str] = field(default_factory=set[str])
    stuck: str = ""
    must_sweep: bool = False
    judged_at: float = -math.inf
    strange: set[str] = field(default_factory=set[str])
    swept: set[str] = field(default_factory=set[str])
    sweeping: threading.Lock = field(default_factory=threading.Lock)
    is_followed: bool = False
    must_look: threading.Event = field(default_factory=threading.Event)
    has_looked: threading.Event = field(default_factory=threading.Event)

    @property
    def _notice(self) -> Answer:
        notice: Answer | None = self.told.get("leaving")
        return notice or {}

    @property
    def leaves(self) -> str:
        """Why it will soon be gone, by its last word; "" = it stays."""
        return str(self._notice.get("why", ""))

    @property
    def leaves_now(self) -> bool:
        """Whether what runs there must end now to end well."""
        in_s = self._notice.get("in_s")
        return bool(self.leaves) and (in_s is None or in_s <= LEAVE_NOTICE_S)

    @property
    def has_left(self) -> bool:
        """Whether it said that it leaves, and has been silent since."""
        return bool(self.leaves and self.trouble) and time.monotonic() - self.seen_at > LEFT_AFTER_S

    def swept_since(self) -> set[str]:
        """What has been swept since this was last asked."""
        with self.sweeping:
            told, self.swept = self.swept, set[str]()
        return told


def machine_of(known: KnownHost) -> Machine:
    """The machine as the host last described it."""
    host, told = known.host, known.told
    state = NodeState.PREEMPTED if known.has_left else NodeState.LEAVING if known.leaves else NodeState.IDLE
    left = f"it has left: {known.leaves}" if known.has_left else f"it leaves: {known.leaves}" if known.leaves else ""
    return Machine(
        host.name,
        told.get("cpus", 0) if host.cpus is None else host.cpus,
        tuple(told.get("gpus", ())) if host.gpus is None else host.gpus,
        told.get("memory_mib", 0),
        word="answers" if not known.trouble else "silent",
        unusable=left
        or known.trouble
        or known.stuck
        or told.get("unusable", "")
        or ("it still ends what ran there" if known.to_end or known.must_sweep else ""),
        is_awaited=not known.has_looked.is_set(),
        state=state,
    )

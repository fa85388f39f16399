"""The faults, their targets and times, drawn from a seed that reproduces them. Pure."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from drumbeat.model.errors import SpecError


class FaultKind(StrEnum):
    """A kind of fault."""

    KILL = "kill"
    """`kill -9` of a rank."""
    STOP = "stop"
    """SIGSTOP of a rank, and SIGCONT later, unless the ranks have been restarted meanwhile."""
    AGENT = "agent"
    """`kill -9` of a node's agent."""
    KEEPER = "keeper"
    """`kill -9` of a node's supervisor."""
    CUT = "cut"
    """A network partition: the link of a node is down for a while."""
    FILL_DISK = "fill-disk"
    """The disk of the checkpoints is full for a while."""


ALWAYS = (FaultKind.KILL, FaultKind.STOP, FaultKind.AGENT, FaultKind.KEEPER)
"""Faults that need neither root nor a network for the job."""
FIRST, LAST = 0.05, 0.85
"""The range of a fault's time, as shares of the way from the first checkpoint to the last step."""


@dataclass(frozen=True)
class DrawnFault:
    """One fault. Numbers from 0 to 1 represent what is known only when the job runs."""

    kind: FaultKind
    when: float
    """The elapsed share of the time between the first checkpoint and the last step."""
    whom: float
    """The target among all ranks or nodes."""

    def index(self, count: int) -> int:
        """Returns the index of the target among `count`."""
        return min(int(self.whom * count), count - 1)


def parse_faults(text: str) -> tuple[FaultKind, ...]:
    """Reads `kill,stop`. Raises SpecError."""
    words = [word.strip() for word in text.split(",") if word.strip()]
    if unknown := [word for word in words if word not in [*FaultKind]]:
        fix = f"Choose from {', '.join(FaultKind)}."
        raise SpecError(f"{unknown[0][:40]!r} isn't a fault", where="--faults", fix=fix)
    if not words:
        raise SpecError("no fault is given", where="--faults", fix=f"Choose from {', '.join(FaultKind)}.")
    return tuple(dict.fromkeys(FaultKind(word) for word in words))


def draw_faults(kinds: Sequence[FaultKind], runs: int, seed: int) -> list[DrawnFault]:
    """Returns a fault for each run: each kind in turn, at a random moment, of a random rank or node."""
    chance = random.Random(f"drumbeat/rehearsal/{seed}")  # noqa: S311 (no secret)
    return [
        DrawnFault(kinds[number % len(kinds)], chance.uniform(FIRST, LAST), chance.random()) for number in range(runs)
    ]

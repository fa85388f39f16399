"""Which fault strikes whom, when, and for how long: drawn from a seed alone, which is enough to see it again."""

from __future__ import annotations

import random
from dataclasses import dataclass

PHASES = ("queued", "staging", "running", "stopping", "finalizing", "sweeping")
"""Sweeping: the job has ended, and what is left of it is being cleared."""

_DELAYS_S = {"queued": 0.5, "staging": 1.0, "running": 1.2, "stopping": 0.8, "finalizing": 0.08, "sweeping": 0.3}
"""The longest after the phase was seen to begin; the real phases last about as long."""
_KINDS = {
    "queued": ("completed", "failed once"),
    "staging": ("completed", "failed once"),
    "running": ("completed", "failed once"),
    "stopping": ("canceled",),
    "finalizing": ("completed", "canceled"),
    "sweeping": ("completed", "canceled"),
}
SHORT_S = 2.0
"""The longest in `make test`."""


@dataclass(frozen=True)
class Row:
    """A fault in a phase. lasts_s: between which it is drawn."""

    fault: str
    victims: tuple[str, ...]
    phase: str
    lasts_s: tuple[float, float] = (0.0, 0.0)


def _rows(fault: str, victims: str, phases: str, shortest_s: float = 0, longest_s: float | None = None) -> list[Row]:
    lasts_s = (shortest_s, shortest_s if longest_s is None else longest_s)
    return [Row(fault, tuple(victims.split("+")), phase, lasts_s) for phase in phases.split()]


_WITH_RANKS = "running stopping finalizing"
ROWS = (
    *(row for down_s in (0, 20, 60) for row in _rows("killed", "server", " ".join(PHASES), down_s)),
    *_rows("killed", "agent", f"staging {_WITH_RANKS}"),
    *_rows("killed", "supervisor", f"staging {_WITH_RANKS}"),
    *_rows("killed", "agent+server", f"staging {_WITH_RANKS}", 0, 2),
    *_rows("stopped", "server", f"queued staging {_WITH_RANKS}", 1, 8),
    *_rows("stopped", "agent", f"staging {_WITH_RANKS}", 1, 8),
    *_rows("stopped", "supervisor", _WITH_RANKS, 1, 8),
    *(row for who in ("server", "agent", "supervisor") for row in _rows("cancel", who, "staging running finalizing")),
    *(row for who in ("server", "agent", "supervisor") for row in _rows("two jobs", who, "running")),
    *_rows("disk full", "", "staging running finalizing", 1, 5),
    *_rows("link cut", "", "staging running finalizing", 2, 8),
)
"""Every fault in every phase that it can strike in: 60 seeds in a row have each of them once."""
_NOT_ON_NODES = ("disk full",)
_ON_NODES = (*_rows("node off", "", "staging running finalizing", 2, 8),)
ENGINES = ("local", "netlab", "slurm")


def rows_of(engine: str) -> tuple[Row, ...]:
    """Returns the faults that are played on an engine.

    Where jobs have nodes of their own, these are switched off, too. Nodes of a lab share one disk. Slurm has a queue
    of its own.
    """
    if engine == "local":
        return ROWS
    rows = (row for row in (*ROWS, *_ON_NODES) if row.fault not in _NOT_ON_NODES)
    return tuple(row for row in rows if engine != "slurm" or row.phase != "queued")


@dataclass(frozen=True)
class Instant:
    """One fault. kind: of job. delay_s: after its phase was seen to begin. gap_s: between a cancel and a kill."""

    seed: int
    fault: str
    victims: tuple[str, ...]
    phase: str
    kind: str
    node: int
    delay_s: float
    lasts_s: float
    gap_s: float

    @property
    def what(self) -> str:
        """Who is struck, in words."""
        whom = " and ".join(f"{one} {self.node}" if one in ("agent", "supervisor") else one for one in self.victims)
        words = {
            "killed": f"{whom} killed",
            "stopped": f"{whom} stopped",
            "cancel": f"cancel, {whom} killed",
            "two jobs": f"two jobs, {whom} killed",
            "disk full": "disk full",
            "link cut": f"link of node {self.node} cut",
            "node off": f"node {self.node} off",
        }[self.fault]
        return f"{words} for {self.lasts_s:.1f} s" if self.lasts_s else words

    @property
    def when(self) -> str:
        """In which job's which phase."""
        return f"{self.kind}: {self.phase} + {self.delay_s:.2f} s"


def draw(seed: int, engine: str = "local", *, is_short: bool = False) -> Instant:
    """The fault of a seed; the short one is the same, but never lasts long."""
    rows = rows_of(engine)
    row, chance = rows[seed % len(rows)], random.Random(seed)
    is_plain = row.fault in ("cancel", "two jobs", "disk full")
    lasts_s = chance.uniform(*row.lasts_s)
    return Instant(
        seed=seed,
        fault=row.fault,
        victims=tuple(filter(None, row.victims)),
        phase=row.phase,
        kind="completed" if is_plain else chance.choice(_KINDS[row.phase]),
        node=0 if row.fault == "two jobs" else chance.randrange(2),
        delay_s=chance.uniform(0, _DELAYS_S[row.phase]),
        lasts_s=min(lasts_s, SHORT_S) if is_short else lasts_s,
        gap_s=chance.uniform(-0.1, 0.1),
    )

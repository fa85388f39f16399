"""What the states of Slurm's jobs mean to drumbeat: one table. A state that isn't here moves nothing.

squeue(1) "JOB STATE CODES", Slurm 20.11 to 24.11.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum, auto

from drumbeat.core.lifecycle.events import Loss


class Stage(Enum):
    """How far a Slurm job is. WAITS: its agents can't be there. ENDS: it holds its nodes still. OVER: it holds none."""

    WAITS = auto()
    RUNS = auto()
    ENDS = auto()
    OVER = auto()


@dataclass(frozen=True)
class Word:
    """short: squeue's own abbreviation. loss, what: for a gang whose job is OVER so; `what` follows "Slurm job 17"."""

    short: str
    stage: Stage
    loss: Loss = Loss.LOST
    what: str = ""


JOB: dict[str, Word] = {
    "PENDING": Word("PD", Stage.WAITS),
    "CONFIGURING": Word("CF", Stage.WAITS),
    "SUSPENDED": Word("S", Stage.WAITS),
    "STOPPED": Word("ST", Stage.WAITS),
    "REQUEUED": Word("RQ", Stage.WAITS),
    "REQUEUE_FED": Word("RF", Stage.WAITS),
    "REQUEUE_HOLD": Word("RH", Stage.WAITS),
    "RESV_DEL_HOLD": Word("RD", Stage.WAITS),
    "SPECIAL_EXIT": Word("SE", Stage.WAITS),
    "RUNNING": Word("R", Stage.RUNS),
    "RESIZING": Word("RS", Stage.RUNS),
    "SIGNALING": Word("SI", Stage.RUNS),
    "COMPLETING": Word("CG", Stage.ENDS),
    "STAGE_OUT": Word("SO", Stage.ENDS),
    "COMPLETED": Word("CD", Stage.OVER, Loss.LOST, "ended while its nodes were still needed"),
    "CANCELLED": Word("CA", Stage.OVER, Loss.CANCELED, "was canceled in Slurm (scancel), not by drumbeat"),
    "PREEMPTED": Word("PR", Stage.OVER, Loss.PREEMPTED, "was preempted by Slurm"),
    "TIMEOUT": Word("TO", Stage.OVER, Loss.TIMED_OUT, "reached Slurm's time limit"),
    "DEADLINE": Word("DL", Stage.OVER, Loss.TIMED_OUT, "reached its deadline in Slurm"),
    "OUT_OF_MEMORY": Word("OOM", Stage.OVER, Loss.OUT_OF_MEMORY, "reached its memory limit in Slurm"),
    "NODE_FAIL": Word("NF", Stage.OVER, Loss.LOST, "lost a node (NODE_FAIL)"),
    "BOOT_FAIL": Word("BF", Stage.OVER, Loss.LOST, "was given a node that didn't boot (BOOT_FAIL)"),
    "LAUNCH_FAILED": Word("LF", Stage.OVER, Loss.FAILED, "could not be launched"),
    "RECONFIG_FAIL": Word("RC", Stage.OVER, Loss.FAILED, "could not have its node configured"),
    "REVOKED": Word("RV", Stage.OVER, Loss.LOST, "was given to another cluster of the federation"),
    "FAILED": Word("F", Stage.OVER, Loss.FAILED, "failed"),
}

UNKNOWN = Word("", Stage.RUNS)


def said(text: str) -> str:
    """The word in what a command prints: `CANCELLED by 0`, `OUT_OF_ME+`, `CD`, in full where that is known."""
    found = re.match(r"[A-Za-z_]+", text.strip())
    word = found[0].upper() if found else ""
    if word in JOB:
        return word
    longer = [name for name, one in JOB.items() if one.short == word or (text.endswith("+") and name.startswith(word))]
    return longer[0] if len(longer) == 1 else word


def meaning(word: str) -> Word:
    """Of a word as `said` gives it."""
    return JOB.get(word, UNKNOWN)


def seconds(text: str) -> int | None:
    """`[D-]HH:MM:SS` as seconds; None for UNLIMITED and what else isn't a time."""
    found = re.fullmatch(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)", text.strip())
    if not found:
        return None
    days, hours, minutes, rest = (int(part or 0) for part in found.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + rest

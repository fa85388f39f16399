"""The meaning of Slurm's job states for drumbeat, in one table. A state that isn't in it changes nothing.

squeue(1) "JOB STATE CODES", Slurm 20.11 to 24.11.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum, auto

from drumbeat.core.lifecycle.events import Loss


class Stage(Enum):
    """The stage of a Slurm job. WAITS: it has no agents yet. ENDS: it still holds its nodes. OVER: it holds none."""

    WAITS = auto()
    RUNS = auto()
    ENDS = auto()
    OVER = auto()


@dataclass(frozen=True)
class SlurmJobState:
    """A state of Slurm's jobs and its meaning for the gang."""

    short: str
    """The abbreviation that squeue prints."""
    stage: Stage
    loss: Loss = Loss.LOST
    """The loss of a gang whose job is OVER in this state."""
    what: str = ""
    """The same as a phrase after "Slurm job 17"."""


JOB: dict[str, SlurmJobState] = {
    "PENDING": SlurmJobState("PD", Stage.WAITS),
    "CONFIGURING": SlurmJobState("CF", Stage.WAITS),
    "SUSPENDED": SlurmJobState("S", Stage.WAITS),
    "STOPPED": SlurmJobState("ST", Stage.WAITS),
    "REQUEUED": SlurmJobState("RQ", Stage.WAITS),
    "REQUEUE_FED": SlurmJobState("RF", Stage.WAITS),
    "REQUEUE_HOLD": SlurmJobState("RH", Stage.WAITS),
    "RESV_DEL_HOLD": SlurmJobState("RD", Stage.WAITS),
    "SPECIAL_EXIT": SlurmJobState("SE", Stage.WAITS),
    "RUNNING": SlurmJobState("R", Stage.RUNS),
    "RESIZING": SlurmJobState("RS", Stage.RUNS),
    "SIGNALING": SlurmJobState("SI", Stage.RUNS),
    "COMPLETING": SlurmJobState("CG", Stage.ENDS),
    "STAGE_OUT": SlurmJobState("SO", Stage.ENDS),
    "COMPLETED": SlurmJobState("CD", Stage.OVER, Loss.LOST, "ended while its nodes were still needed"),
    "CANCELLED": SlurmJobState("CA", Stage.OVER, Loss.CANCELED, "was canceled in Slurm (scancel), not by drumbeat"),
    "PREEMPTED": SlurmJobState("PR", Stage.OVER, Loss.PREEMPTED, "was preempted by Slurm"),
    "TIMEOUT": SlurmJobState("TO", Stage.OVER, Loss.TIMED_OUT, "reached Slurm's time limit"),
    "DEADLINE": SlurmJobState("DL", Stage.OVER, Loss.TIMED_OUT, "reached its deadline in Slurm"),
    "OUT_OF_MEMORY": SlurmJobState("OOM", Stage.OVER, Loss.OUT_OF_MEMORY, "reached its memory limit in Slurm"),
    "NODE_FAIL": SlurmJobState("NF", Stage.OVER, Loss.LOST, "lost a node (NODE_FAIL)"),
    "BOOT_FAIL": SlurmJobState("BF", Stage.OVER, Loss.LOST, "was given a node that didn't boot (BOOT_FAIL)"),
    "LAUNCH_FAILED": SlurmJobState("LF", Stage.OVER, Loss.FAILED, "could not be launched"),
    "RECONFIG_FAIL": SlurmJobState("RC", Stage.OVER, Loss.FAILED, "could not have its node configured"),
    "REVOKED": SlurmJobState("RV", Stage.OVER, Loss.LOST, "was given to another cluster of the federation"),
    "FAILED": SlurmJobState("F", Stage.OVER, Loss.FAILED, "failed"),
}

UNKNOWN = SlurmJobState("", Stage.RUNS)


def full_word(text: str) -> str:
    """The state that a command prints (`CANCELLED by 0`, `OUT_OF_ME+`, `CD`), in full if it is known."""
    match = re.match(r"[A-Za-z_]+", text.strip())
    word = match[0].upper() if match else ""
    if word in JOB:
        return word
    longer = [name for name, one in JOB.items() if one.short == word or (text.endswith("+") and name.startswith(word))]
    return longer[0] if len(longer) == 1 else word


def meaning(word: str) -> SlurmJobState:
    """The meaning of a state as `full_word` returns it."""
    return JOB.get(word, UNKNOWN)


def seconds(text: str) -> int | None:
    """`[D-]HH:MM:SS` as seconds; None for UNLIMITED and other text."""
    match = re.fullmatch(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)", text.strip())
    if not match:
        return None
    days, hours, minutes, rest = (int(part or 0) for part in match.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + rest

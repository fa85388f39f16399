"""The state of a machine by Slurm's words: sinfo's %T with its suffix, and the reason. Pure.

sinfo(1) "NODE STATE CODES". Observed on Slurm 22.05: `~ # % ! * -`; the other suffixes are from the documentation.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from drumbeat.model.api.computes import NodeState

RESUME_FAILED = "ResumeTimeout reached"
"""Slurm's reason for a machine that it switched on and that never started."""


@dataclass(frozen=True)
class NodeWord:
    """The state of a machine, and its reason; "" = none."""

    state: NodeState
    why: str = ""


_OFF = NodeWord(NodeState.OFF, "it is switched off; Slurm starts it when a job needs it")
_COMING = NodeWord(NodeState.PREPARING, "it is being started")
_TAKEN = NodeWord(NodeState.PREPARING, "it is assigned to a job, and Slurm is about to start it")
_GOING = NodeWord(NodeState.LEAVING, "it is being switched off")
_BOOTS = NodeWord(NodeState.PREPARING, "it is booting")

SUFFIXES: dict[str, NodeWord] = {
    "~": _OFF,
    "#": _COMING,
    "%": _GOING,
    "!": NodeWord(NodeState.LEAVING, "it will be switched off"),
    "^": _BOOTS,
    "$": NodeWord(NodeState.UNUSABLE, "it is reserved for maintenance"),
}
"""States by suffix. The other suffixes don't affect the state: `@` a reboot is pending, `-` a job is planned, `+` there
is more.
"""

BASES: dict[str, NodeWord] = {
    "idle": NodeWord(NodeState.IDLE),
    "planned": NodeWord(NodeState.IDLE, "Slurm reserves it for the next job"),
    "plnd": NodeWord(NodeState.IDLE, "Slurm reserves it for the next job"),
    "reserved": NodeWord(NodeState.IDLE, "it is reserved"),
    "resv": NodeWord(NodeState.IDLE, "it is reserved"),
    "allocated": NodeWord(NodeState.RUNNING),
    "alloc": NodeWord(NodeState.RUNNING),
    "mixed": NodeWord(NodeState.RUNNING),
    "mix": NodeWord(NodeState.RUNNING),
    "completing": NodeWord(NodeState.RUNNING),
    "comp": NodeWord(NodeState.RUNNING),
    "power_up": _COMING,
    "powering_up": _COMING,
    "power_down": _OFF,
    "powered_down": _OFF,
    "powering_down": _GOING,
    "reboot": _BOOTS,
    "rebooting": _BOOTS,
}
"""States by the word without its suffix. Other words are unusable if they are in `UNUSABLE`, else idle."""

UNUSABLE = {
    "down": "is down", "drain": "is drained", "drained": "is drained", "draining": "is being drained",
    "drng": "is being drained", "fail": "fails", "failing": "fails", "failg": "fails", "error": "has an error",
    "maint": "is in maintenance", "unknown": "is in an unknown state", "unk": "is in an unknown state",
    "inval": "doesn't match Slurm's configuration", "future": "doesn't exist yet", "futr": "doesn't exist yet",
    "blocked": "is blocked", "blk": "is blocked", "no_respond": "doesn't answer Slurm", "reboot": "boots",
    "power_down": "is switched off",
}  # fmt: skip
"""Words for machines on which nothing can start, and their explanation."""

_FREE = ("idle", "planned", "plnd", "reserved", "resv")


def meaning(state: str, why: str, resume_timeout_s: float | None = None) -> NodeWord:
    """The meaning of a word like `idle~` or `down*`. why: Slurm's own reason."""
    base, suffix = re.match(r"[A-Za-z_]*", state), state[-1:]
    word = base[0].lower() if base else ""
    if word == "down" and RESUME_FAILED in why:
        within = f" within {resume_timeout_s:g} s" if resume_timeout_s else ""
        what = f"Slurm switched it on, and it didn't start{within} (ResumeTimeout)"
        return NodeWord(NodeState.UNUSABLE, f"{what}; scontrol update nodename=… state=power_down_force gives it back")
    by_base = BASES.get(word)
    if (by_base is None or suffix == "*") and (explanation := unusable(state, why)):
        return NodeWord(NodeState.UNUSABLE, explanation)
    if suffix == "~" and word not in _FREE:
        return _TAKEN
    return SUFFIXES.get(suffix, by_base or NodeWord(NodeState.IDLE))


def unusable(state: str, why: str) -> str:
    """Why nothing can start on a machine in this state (`idle~`, `down*`), "" = it can. why: Slurm's own reason."""
    base = re.match(r"[A-Za-z_]*", state)
    explanation = UNUSABLE.get(base[0].lower() if base else "", "")
    if not explanation and state.endswith("*"):
        explanation = "doesn't answer Slurm"
    reason = f" ({why})" if explanation and why not in ("", "none", "Not responding") else ""
    return f"it {explanation}{reason}" if explanation else ""

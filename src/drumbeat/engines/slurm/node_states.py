"""What Slurm's words for a machine say of its state: the word of sinfo's %T with its suffix, and the reason. Pure.

sinfo(1) "NODE STATE CODES". Seen on Slurm 22.05: `~ # % ! * -`; the other suffixes are from the documentation.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from drumbeat.model.api.computes import NodeState

RESUME_FAILED = "ResumeTimeout reached"
"""Slurm's reason for a machine that it switched on and that never came."""


@dataclass(frozen=True)
class NodeWord:
    """The state of a machine, and why it is in it; "" = there is nothing to say."""

    state: NodeState
    why: str = ""


_OFF = NodeWord(NodeState.OFF, "it is switched off; Slurm starts it when a job needs it")
_COMING = NodeWord(NodeState.PREPARING, "it is being started")
_TAKEN = NodeWord(NodeState.PREPARING, "a job has it, and Slurm is about to start it")
_GOING = NodeWord(NodeState.LEAVING, "it is being switched off")
_BOOTS = NodeWord(NodeState.PREPARING, "it boots")

SUFFIXES: dict[str, NodeWord] = {
    "~": _OFF,
    "#": _COMING,
    "%": _GOING,
    "!": NodeWord(NodeState.LEAVING, "it is to be switched off"),
    "^": _BOOTS,
    "$": NodeWord(NodeState.UNUSABLE, "it is reserved for maintenance"),
}
"""By suffix. The others say nothing of the state: `@` a reboot is to come, `-` a job is planned, `+` there is more."""

BASES: dict[str, NodeWord] = {
    "idle": NodeWord(NodeState.IDLE),
    "planned": NodeWord(NodeState.IDLE, "Slurm keeps it for a job that is next"),
    "plnd": NodeWord(NodeState.IDLE, "Slurm keeps it for a job that is next"),
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
"""By the word without its suffix. A word that isn't here is unusable where `UNUSABLE` says so, else idle."""

UNUSABLE = {
    "down": "is down", "drain": "is drained", "drained": "is drained", "draining": "is being drained",
    "drng": "is being drained", "fail": "fails", "failing": "fails", "failg": "fails", "error": "has an error",
    "maint": "is in maintenance", "unknown": "isn't known to be well", "unk": "isn't known to be well",
    "inval": "isn't as Slurm was told", "future": "isn't there yet", "futr": "isn't there yet", "blocked": "is blocked",
    "blk": "is blocked", "no_respond": "doesn't answer Slurm", "reboot": "boots", "power_down": "is switched off",
}  # fmt: skip
"""Words for a machine that nothing is started on, and what they say of it."""

_FREE = ("idle", "planned", "plnd", "reserved", "resv")


def meaning(state: str, why: str, resume_timeout_s: float | None = None) -> NodeWord:
    """Of a word like `idle~` or `down*`. why: Slurm's own reason."""
    base, suffix = re.match(r"[A-Za-z_]*", state), state[-1:]
    word = base[0].lower() if base else ""
    if word == "down" and RESUME_FAILED in why:
        within = f" within {resume_timeout_s:g} s" if resume_timeout_s else ""
        what = f"Slurm switched it on, and it didn't come{within} (ResumeTimeout)"
        return NodeWord(NodeState.UNUSABLE, f"{what}; scontrol update nodename=… state=power_down_force gives it back")
    by_base = BASES.get(word)
    if (by_base is None or suffix == "*") and (told := unusable(state, why)):
        return NodeWord(NodeState.UNUSABLE, told)
    if suffix == "~" and word not in _FREE:
        return _TAKEN
    return SUFFIXES.get(suffix, by_base or NodeWord(NodeState.IDLE))


def unusable(state: str, why: str) -> str:
    """Why nothing can start on a machine in this state (`idle~`, `down*`), "" = it can. why: Slurm's own reason."""
    base = re.match(r"[A-Za-z_]*", state)
    told = UNUSABLE.get(base[0].lower() if base else "", "")
    if not told and state.endswith("*"):
        told = "doesn't answer Slurm"
    reason = f" ({why})" if told and why not in ("", "none", "Not responding") else ""
    return f"it {told}{reason}" if told else ""

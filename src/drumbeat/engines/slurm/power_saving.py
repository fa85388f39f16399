"""How a cluster switches its machines on and off and preempts jobs, by its administrator's settings. Pure.

slurm.conf(5). Slurm refuses to change these settings at run time; drumbeat reads and shows them.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

from drumbeat.model.api.computes import Scale, Tier

_NEVER = ("", "INFINITE", "NONE", "UNLIMITED", "(null)", "-1")


@dataclass(frozen=True)
class Power:
    """The settings of a partition, or the cluster's where the partition has none. Times in seconds."""

    partition: str = ""
    suspend_time_s: float | None = None
    """How long a machine is idle before it is switched off; None = it never is."""
    resume_timeout_s: float | None = None
    always_on: str = ""
    """Machines that are never switched off, as a list of Slurm's; `list:3` = 3 of them."""
    can_preempt: bool = False
    """Whether the cluster preempts jobs at all."""
    is_preempted: bool = False
    """Whether it preempts jobs of this partition."""
    grace_s: float = 0.0
    """The minimum time between notice and kill of a preempted job of this partition."""


def read_power(partition: str, config: str) -> Power:
    """The settings in the output of `scontrol --oneliner show partition` for one partition, and of `scontrol show
    config`.
    """
    own = dict(re.findall(r"(\w+)=(\S*)", partition))
    common = {key: value.strip() for key, value in re.findall(r"^(\w+)\s*= *(.*)$", config, re.MULTILINE)}
    name = own.get("PartitionName", "")

    def setting(key: str) -> float | None:
        value = own.get(key, "GLOBAL")
        return _seconds(common.get(key, "") if value == "GLOBAL" else value)

    is_excepted = name in common.get("SuspendExcParts", "").split(",")
    has_program = common.get("SuspendProgram", "") not in _NEVER
    can_preempt = common.get("PreemptType", "preempt/none") not in ("preempt/none", "(null)")
    mode = own.get("PreemptMode", "OFF").upper()
    kept = common.get("SuspendExcNodes", "")
    return Power(
        name,
        setting("SuspendTime") if has_program and not is_excepted else None,
        setting("ResumeTimeout"),
        "" if kept in _NEVER else kept,
        can_preempt,
        can_preempt and ("REQUEUE" in mode or "CANCEL" in mode),
        _seconds(own.get("GraceTime", "0")) or 0.0,
    )


def _seconds(text: str) -> float | None:
    number = re.match(r"\d+", text)
    return None if text in _NEVER or number is None else float(number[0])


def scale(power: Power, machines: Collection[str], kept: int, usual_s: float | None) -> Scale:
    """The scaling limits of a partition. kept: how many of its machines are never switched off."""
    where = f"partition {power.partition}" if power.partition else "the partition"
    is_elastic = power.suspend_time_s is not None
    return Scale(
        kept if is_elastic else len(machines),
        len(machines),
        power.suspend_time_s,
        power.resume_timeout_s if is_elastic else None,
        usual_s,
        Tier.LOW_PRIORITY if power.is_preempted else Tier.DEDICATED,
        {
            "min_instances": "SuspendExcNodes",
            "max_instances": where,
            "idle_time_before_scale_down": "SuspendTime",
            "tier": f"PreemptMode of {where}",
        },
    )


def count_kept(power: Power, listed: Collection[str], machines: Collection[str]) -> int:
    """How many machines of a partition are never switched off. listed: the names in `always_on`, expanded."""
    among = len(set(listed) & set(machines))
    counts = re.findall(r":(\d+)", power.always_on)
    return min(among, sum(map(int, counts))) if counts else among

"""Decides which machines of a compute are started, and which are switched off. Pure.

Each look decides from the machines and jobs as they are then: an action that was lost is decided again. A machine that
a job holds is never let go, nor one that a waiting job needs.

The keys of a compute (`min_instances`, `max_instances`, `idle_time_before_scale_down`) are in
`jobfile/compute/compute_keys.py`; the default of the idle time is in `server/computes/scaler.py`.
Since when a machine is idle is counted in `server/computes/node_states.py`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from statistics import median

from drumbeat.core.scheduling.queued_job import Placement
from drumbeat.core.scheduling.resource_needs import Slot
from drumbeat.core.scheduling.slot_fitting import MachineCapacity
from drumbeat.model.api.computes import NodeState
from drumbeat.model.plurals import counted, name_some
from drumbeat.model.states import Reason

LEAVE_TIME = timedelta(seconds=3)
"""How long a machine is leaving before it is switched off: in this time every server sees that it leaves."""
MAX_START_TIMES = 20
"""How many of the last starts count towards the usual time."""

_COMING = (NodeState.OFF, NodeState.PREPARING, NodeState.LEAVING)
"""States of machines that can be usable soon."""


@dataclass(frozen=True)
class Limits:
    """How many machines there are at least and at most. idle_time: None = an idle machine is never switched off."""

    fewest: int
    most: int
    idle_time: timedelta | None = None


@dataclass(frozen=True)
class ScaledMachine:
    """A machine as scaling sees it. since: when it entered its state. is_held: a job has slots on it."""

    name: str
    state: NodeState
    since: datetime
    is_held: bool = False


@dataclass(frozen=True)
class ScaleStep:
    """The actions on machines to take now, by name."""

    switch_on: tuple[str, ...] = ()
    let_go: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()
    """Machines that were leaving and stay after all."""
    switch_off: tuple[str, ...] = ()


def decide(limits: Limits, nodes: Sequence[ScaledMachine], needed: Collection[str], now: datetime) -> ScaleStep:
    """Decides the actions to take now. needed: machines that the jobs at the head of the queue would be placed on."""
    is_on = [one for one in nodes if one.state is not NodeState.OFF]
    leaving = [one for one in is_on if one.state is NodeState.LEAVING]
    keep = [one for one in leaving if one.is_held or (one.name in needed and len(is_on) <= limits.most)]
    gone = [one for one in leaving if one not in keep and now - one.since >= LEAVE_TIME]
    staying = [one for one in is_on if one not in leaving or one in keep]
    off = sorted((one for one in nodes if one.state is NodeState.OFF), key=lambda one: one.name not in needed)
    wanted = max(limits.fewest - len(staying), sum(one.name in needed for one in off))
    switch_on = off[: max(0, min(wanted, limits.most - len(is_on)))]
    let_go = _surplus(limits, staying, needed, now)
    return ScaleStep(_names(switch_on), _names(let_go), _names(keep), _names(gone))


def _surplus(
    limits: Limits, staying: Sequence[ScaledMachine], needed: Collection[str], now: datetime
) -> list[ScaledMachine]:
    """Returns the idle machines to let go, the longest idle first."""
    too_many, spare = len(staying) - limits.most, len(staying) - limits.fewest
    idle = [one for one in staying if one.state is NodeState.IDLE and not one.is_held and one.name not in needed]
    idle.sort(key=lambda one: one.since)
    over = [one for one in idle if limits.idle_time is not None and now - one.since >= limits.idle_time]
    return [*idle[: max(0, too_many)], *over[max(0, too_many) :]][: max(0, spare)]


def _names(nodes: Sequence[ScaledMachine]) -> tuple[str, ...]:
    return tuple(one.name for one in nodes)


# --- placement --------------------------------------------------------------------------------------------------
def within(rooms: Sequence[MachineCapacity], most: int) -> list[MachineCapacity]:
    """Returns the machines that jobs may be placed on: those that are on, and others up to `most`."""
    left = most - sum(room.state is not NodeState.OFF for room in rooms)
    chosen: list[MachineCapacity] = []
    for room in rooms:
        is_off = room.state is NodeState.OFF
        if not is_off or left > 0:
            chosen.append(room)
            left -= is_off
    return chosen


def as_if_started(rooms: Sequence[MachineCapacity]) -> list[MachineCapacity]:
    """Returns the machines with those that are off or starting counted as usable."""
    return [replace(room, unusable="") if room.state in _COMING else room for room in rooms]


def awaited(slots: Sequence[Slot], rooms: Sequence[MachineCapacity], usual_s: float | None) -> str:
    """Says why a job waits that will be placed on these slots when their machines have started; "" = they have."""
    coming = {room.name for room in rooms if room.state in _COMING}
    names = sorted({slot.machine for slot in slots if slot.machine in coming})
    if not names:
        return ""
    return f"waits for {name_some(names)}, which {'is' if len(names) == 1 else 'are'} being started{usually(usual_s)}"


def usually(usual_s: float | None) -> str:
    """Returns how long a start usually takes, in parentheses."""
    return f" (usually {format_time(usual_s)} here)" if usual_s else ""


def format_time(seconds: float) -> str:
    """A time as a user says it."""
    return f"{max(1, round(seconds))} s" if seconds < 90 else counted(round(seconds / 60), "minute")


class StartTimes:
    """How long machines took to start, and the median of the last starts."""

    def __init__(self) -> None:
        self._seconds: list[float] = []

    def add(self, seconds: float) -> None:
        """Adds the time of a start."""
        self._seconds = [*self._seconds, seconds][-MAX_START_TIMES:]

    def usual_s(self) -> float | None:
        """Returns the median in whole seconds, None = no start was seen."""
        return float(max(1, round(median(self._seconds)))) if self._seconds else None


# --- a cap on a cluster's queue ---------------------------------------------------------------------------------
def capped(placements: Sequence[Placement], most: int, held: Mapping[str, int], compute: str) -> list[Placement]:
    """Returns the placements of jobs on a cluster, in their order, where the compute caps its nodes. held: nodes by
    job.

    No job passes one that waits: a large one would never start.
    """
    taken, is_blocked = sum(held.values()), False
    result: list[Placement] = []
    for asked in placements:
        one = _within_cap(asked, most - taken)
        nodes = len(one.slots)
        if not one.slots:
            result.append(one)
        elif nodes > most:
            what = f"the job needs {counted(nodes, 'node')}; {compute} has at most {most} at a time (max_instances)"
            result.append(Placement(one.job, never=True, sentence=what))
        elif is_blocked or taken + nodes > most:
            sentence = _over_cap(nodes, most, held, compute)
            reason = Reason.WAITING_FOR_TURN if is_blocked else Reason.WAITING_FOR_SLOTS
            result.append(Placement(one.job, reason=reason, sentence=sentence))
            is_blocked = True
        else:
            result.append(one)
            taken += nodes
    return result


def _within_cap(one: Placement, left: int) -> Placement:
    """Returns the placement with no more nodes than the cap leaves, if the job is elastic."""
    return one._replace(slots=one.slots[: max(one.least, left)]) if one.least else one


def _over_cap(nodes: int, most: int, held: Mapping[str, int], compute: str) -> str:
    holders = f"; held by {name_some(sorted(held))}" if held else ""
    of = f"needs {counted(nodes, 'node')} of {compute}, which has at most {most} at a time (max_instances)"
    return f"{of}, {sum(held.values())} in use{holders}"


def cluster_overrides(
    wish: Mapping[str, object], actual: Mapping[str, object], set_by: Mapping[str, str]
) -> tuple[str, ...]:
    """What a user wrote that a cluster has otherwise. set_by: by key, the cluster's setting."""
    return tuple(
        f"{key} is {_format(wish[key])} in the compute's file, and {_format(actual[key])} in the cluster, where "
        f"{setting} sets it: the cluster's is in effect"
        for key, setting in set_by.items()
        if wish.get(key) is not None and wish[key] != actual.get(key)
    )


def _format(value: object) -> str:
    if value is None:
        return "unlimited"
    return f"{value:g}" if isinstance(value, float) else str(value)

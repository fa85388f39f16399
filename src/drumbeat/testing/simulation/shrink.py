"""Running a schedule, and finding the shortest one that still fails (delta debugging: Zeller and Hildebrandt, 2002)."""

from __future__ import annotations

from collections.abc import Sequence

from drumbeat.testing.simulation.actions import Action, happen
from drumbeat.testing.simulation.invariants import Checker, come_to_rest
from drumbeat.testing.simulation.world import World


def run(actions: Sequence[Action]) -> World:
    """Lets everything happen in a new world. Raises Violation, or whatever else goes wrong."""
    world = World()
    checker = Checker(world)
    for action in actions:
        happen(world, action)
        checker.check()
    come_to_rest(world, checker)
    return world


def failure(actions: Sequence[Action]) -> str:
    """What goes wrong, "" if nothing does."""
    try:
        run(actions)
    except Exception as error:  # noqa: BLE001 (any error at all is a finding)
        return f"{type(error).__name__}: {error}"
    return ""


def shrink(actions: Sequence[Action]) -> list[Action]:
    """The same kind of failure with as few actions as can be found by leaving some out."""
    kind = failure(actions).split(":")[0]
    left, size = list(actions), max(1, len(actions) // 2)
    while size:
        begin = 0
        while begin < len(left):
            fewer = left[:begin] + left[begin + size :]
            if failure(fewer).split(":")[0] == kind:
                left = fewer
            else:
                begin += size
        size //= 2
    return left

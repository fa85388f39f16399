"""Running a schedule, and finding the shortest one that still fails (delta debugging: Zeller and Hildebrandt, 2002)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass

from tests.support.simulation.action import Action
from tests.support.simulation.backing import Backing, MemoryBacking
from tests.support.simulation.invariants import Checker, come_to_rest
from tests.support.simulation.schedules import happen
from tests.support.simulation.world import World


@dataclass(frozen=True)
class Setup:
    """What schedules are run on. backing: makes the empty store of one run."""

    servers: int = 1
    backing: Callable[[], Backing] = MemoryBacking


def run(actions: Sequence[Action], setup: Setup) -> None:
    """Lets everything happen in a new world. Raises Violation, or whatever else goes wrong."""
    with closing(setup.backing()) as backing, ExitStack() as closes:
        world = World(setup.servers, backing)
        closes.callback(world.close)
        checker, coming = Checker(world), iter(actions)

        def go_on(count: int) -> None:
            for _ in range(count):
                action = next(coming, None)
                if action is None:
                    return
                happen(world, action)
                checker.check()

        world.meanwhile = go_on
        go_on(len(actions))
        come_to_rest(world, checker)


def failure(actions: Sequence[Action], setup: Setup | None = None) -> str:
    """What goes wrong, "" if nothing does."""
    try:
        run(actions, setup or Setup())
    except Exception as error:  # noqa: BLE001 (any error at all is a finding)
        return f"{type(error).__name__}: {error}"
    return ""


def shrink(actions: Sequence[Action], setup: Setup | None = None) -> list[Action]:
    """The same kind of failure with as few actions as can be found by leaving some out."""
    kind = failure(actions, setup).split(":")[0]
    left, size = list(actions), max(1, len(actions) // 2)
    while size:
        begin = 0
        while begin < len(left):
            fewer = left[:begin] + left[begin + size :]
            if failure(fewer, setup).split(":")[0] == kind:
                left = fewer
            else:
                begin += size
        size //= 2
    return left

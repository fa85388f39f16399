"""The table of launchers, by name."""

from __future__ import annotations

from typing import NoReturn

from drumbeat.launchers import mpi, pytorch, ray, tensorflow
from drumbeat.launchers.launcher import Launcher
from drumbeat.model.plan import RankTable

LAUNCHERS: dict[str, Launcher] = {
    each.name: each for each in (pytorch.LAUNCHER, mpi.LAUNCHER, tensorflow.LAUNCHER, ray.LAUNCHER)
}
"""Every launcher, by its name in a job's `distribution.type`."""


def _refuse(*_arguments: object) -> NoReturn:
    raise KeyError("this version has no launcher of that name")


UNKNOWN = Launcher("unknown", ranks=_refuse, render=_refuse, reserved=lambda _shape: ())
"""The placeholder for a launcher of another version of drumbeat: it needs nothing, and its ranks are unknown."""


def launcher_for(plan: RankTable) -> Launcher:
    """Returns the launcher of a plan, which may come from another version of drumbeat."""
    return LAUNCHERS.get(plan.launcher, UNKNOWN)

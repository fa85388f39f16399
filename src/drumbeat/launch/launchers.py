"""The table of launchers."""

from __future__ import annotations

from drumbeat.launch import mpi, pytorch, ray, tensorflow
from drumbeat.launch.launcher import Launcher

LAUNCHERS: dict[str, Launcher] = {
    each.name: each for each in (pytorch.LAUNCHER, mpi.LAUNCHER, tensorflow.LAUNCHER, ray.LAUNCHER)
}
"""Every launcher, by the name that a job's `distribution.type` gives it."""

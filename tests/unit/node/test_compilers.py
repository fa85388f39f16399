"""What a build from source is told of its node."""

from __future__ import annotations

import os

import pytest

from drumbeat.node.environments.compilers import at_once
from drumbeat.node.platform import machine_memory


@pytest.mark.parametrize(("left_mib", "jobs"), [(7000, "3"), (1000, "1"), (900_000, "8")])
def test_parallel_compilers_fit_the_memory_limit(monkeypatch: pytest.MonkeyPatch, left_mib: int, jobs: str):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    monkeypatch.setattr(machine_memory, "left", lambda: (left_mib << 20, 1_000_000 << 20))
    assert at_once({"MAX_JOBS": "5"}) == {"MAKEFLAGS": f"-j{jobs}", "CMAKE_BUILD_PARALLEL_LEVEL": jobs}

"""kill -9 at every failpoint, in every kind of job: it ends as it should, whole, and nothing is left."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from drumbeat.model.failpoints import ELSEWHERE, POINTS

from .mortal import COMMANDS, Mortal, check
from .points import SIMULATED

SOURCES = Path(__file__).parents[2] / "src" / "drumbeat"

LATER = [
    *(f"loop.before_commit:{n}" for n in range(2, 11)),
    *(f"loop.after_commit:{n}" for n in range(2, 11)),
    "effect.before:2", "effect.before:3", "engine.folder_made:2", "engine.agent_started:2",
    "store.log_grown:2", "store.log_recorded:4", "store.outputs_shown:2", "store.outputs_moved:2",
    "agent.log_sent:2", "agent.output_sent:2",
    "supervisor.rank_forked:2", "supervisor.exit_written:2",
]  # fmt: skip
"""Points that are passed more than once: the later times."""

LATER_ROUNDS = ("agent.ready:2", "agent.before_start:2", "agent.after_start:2", "supervisor.round_written:2")

SHOWN = ("agent.ready:2", "supervisor.round_written:2", "agent.log_sent:2")
"""Of later times and later rounds, what `make test` has; `make thorough` has all."""


def test_every_point_in_the_sources_is_listed_and_named_by_who_and_when():
    found = {name for path in SOURCES.rglob("*.py") for name in re.findall(r'failpoint\("([^"]+)"\)', path.read_text())}
    assert sorted(found) == sorted((*POINTS, *ELSEWHERE))
    assert all(re.fullmatch(r"[a-z]+\.[a-z_]+", name) for name in found)


KILLED_FOR_REAL = ("submit.after_commit",)
"""Simulated points at which `make test` kills a real server all the same; `make thorough` does so at each."""


def marks(point: str, *, is_shown: bool = True) -> tuple[pytest.MarkDecorator, ...]:
    """Of a kill that is in `make test`, none; else that it is for `make thorough`."""
    is_left_to_simulator = point.partition(":")[0] in SIMULATED and point not in KILLED_FOR_REAL
    return () if is_shown and not is_left_to_simulator else (pytest.mark.thorough,)


AT_THE_END = ("agent.leaving", "agent.left", "supervisor.leaving")
"""Points that a process may be too slow for: its nodes are ended a moment after it was told to leave."""

PAIRS = [
    pytest.param(point, kind, marks=marks(point, is_shown=number % len(COMMANDS) == other))
    for number, point in enumerate(POINTS)
    for other, kind in enumerate(COMMANDS)
]
"""Each point that the simulator can't pass with one kind of job in `make test`; all with all in `make thorough`."""


@pytest.mark.feature("F5", "M1")
@pytest.mark.parametrize(("point", "kind"), PAIRS)
def test_a_process_that_dies_at_a_point_loses_and_leaves_nothing(mortal: Mortal, point: str, kind: str):
    die_there(mortal, point, kind)


@pytest.mark.feature("F5", "M1")
@pytest.mark.parametrize(
    "point", [pytest.param(point, marks=marks(point, is_shown=point in SHOWN)) for point in LATER_ROUNDS]
)
def test_a_process_that_dies_in_a_later_round_loses_and_leaves_nothing(mortal: Mortal, point: str):
    die_there(mortal, point, "failed once")


@pytest.mark.feature("F5", "M1")
@pytest.mark.parametrize("point", [pytest.param(point, marks=marks(point, is_shown=point in SHOWN)) for point in LATER])
def test_a_process_that_dies_later_at_a_point_loses_and_leaves_nothing(mortal: Mortal, point: str):
    die_there(mortal, point, "completed")


def die_there(mortal: Mortal, point: str, kind: str) -> None:
    mortal.light(point)
    try:
        for _ in range(5 if point in AT_THE_END else 1):
            name = mortal.go(kind)
            check(mortal, name, kind)
            if mortal.has_burnt:
                break
        assert mortal.has_burnt, f"nobody came to {point}"
    finally:
        mortal.put_out()

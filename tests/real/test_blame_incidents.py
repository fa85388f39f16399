"""Labelled incidents through the real thing: eight in `make test`, both sets whole in `make thorough`.

All of them are judged from recordings in tests/unit/core/test_blame_recordings.py. `make faults` runs both sets and
writes the accuracy down.
"""

from __future__ import annotations

import pytest

from tests.support.incidents import JUDGE, RULES, Incident
from tools.faults.incidents import find_missing, run_incident

from .house import House

REAL = frozenset(
    {
        "leaves early with exit code 0",
        "shapes differ in a collective",
        "a launcher sees late that its process is gone",
        "out of memory by cgroup",
        "an error in another language",
    }
)
"""What `make test` runs: each needs the supervisor, torch or the kernel to be what it is."""
WRONG_STILL = {"the first to fail is the last to exit": "exits have a time, errors have none"}


def marks(incident: Incident) -> list[pytest.MarkDecorator]:
    why = WRONG_STILL.get(incident.name)
    return [
        *([pytest.mark.xfail(reason=why)] if why else []),
        *([] if incident.name in REAL else [pytest.mark.thorough]),
    ]


CHOSEN = [pytest.param(each, marks=marks(each)) for each in (*RULES, *JUDGE)]


def by_name(name: str) -> Incident:
    return next(each for each in (*RULES, *JUDGE) if each.name == name)


@pytest.mark.feature("F1", "F2")
@pytest.mark.parametrize("incident", CHOSEN, ids=lambda each: each.name.replace(" ", "-"))
def test_the_verdict_names_rank_reason_and_what_to_do(house: House, incident: Incident):
    if missing := find_missing(incident):
        pytest.skip(missing)
    found = run_incident(house, incident)
    assert found.wrong == (), (found.said, found.tail)


@pytest.mark.feature("F2")
@pytest.mark.parametrize(
    ("name", "rounds", "why"),
    [
        ("raise in the training loop", 2, "the same error at the same place twice"),
        ("ends itself with SIGSEGV", 3, "all 2 retries are used up"),
        ("a missing package", 1, "trying again can't help"),
    ],
)
def test_how_often_it_is_tried_again_is_a_matter_of_the_failure(house: House, name: str, rounds: int, why: str):
    found = run_incident(house, by_name(name), max_retries=2)
    assert (found.rounds, found.said.sentence.rpartition("; ")[2]) == (rounds, why)


def test_every_incident_has_a_name_of_its_own():
    names = [each.name for each in (*RULES, *JUDGE)]
    assert len(names) == len(set(names))

"""Blame over recordings of every labelled incident, made by tools/incident_recordings.py."""

from __future__ import annotations

import json

import pytest

from drumbeat.core.diagnosis.blame import Exit, verdict
from drumbeat.model import wire
from drumbeat.model.agent import RankExit
from tests.support.incidents import JUDGE, RULES, Incident, Said

from .recordings import RECORDINGS, path_of

pytestmark = pytest.mark.feature("F1", "F2")

WRONG_STILL = {"the first to fail is the last to exit": "exits have a time, errors have none"}


def marked(incident: Incident) -> object:
    why = WRONG_STILL.get(incident.name)
    return pytest.param(incident, marks=pytest.mark.xfail(reason=why) if why else ())


@pytest.mark.parametrize(
    "incident", [marked(each) for each in (*RULES, *JUDGE)], ids=lambda one: one.name.replace(" ", "-")
)
def test_verdict_on_recorded_exits_names_rank_reason_and_advice(incident: Incident):
    recording = json.loads(path_of(incident).read_text(encoding="utf-8"))
    exits: list[Exit] = [(node, wire.from_wire(RankExit, one)) for node, one in recording["exits"]]
    judged = verdict(exits, recording["world"])
    said = Said(judged.rank, judged.reason.value, judged.sentence, judged.advice)
    assert incident.wrong(said) == [], said


def test_every_recording_is_of_an_incident():
    assert {path.stem for path in RECORDINGS.glob("*.json")} == {path_of(one).stem for one in (*RULES, *JUDGE)}

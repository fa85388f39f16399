"""Scoring scripts are answered as Microsoft's inference server answers them, but for named differences."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.scoring_cases import CASES, Case
from tools.kept_programs import INFERENCE_SCHEMA, INFERENCE_SERVER, KeptProgram, NotFetchedError

ROOT = Path(__file__).parents[2]
RECORDED = json.loads((ROOT / "tests/golden/scoring/azure.json").read_text(encoding="utf-8"))


def play(program: KeptProgram) -> dict[str, dict[str, dict[str, object]]]:
    """drumbeat's answers, in an environment that has a program's modules."""
    try:
        folder = program.fetch().parents[1]
    except NotFetchedError as error:
        pytest.skip(str(error))
    variables = {**os.environ, "PYTHONPATH": str(folder)}
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.scoring_player"],
        cwd=ROOT,
        env=variables,
        capture_output=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()[-3000:]
    return json.loads(done.stdout)


def differences(answers: dict[str, dict[str, object]]) -> dict[str, tuple[object, object]]:
    """The recorded answer and drumbeat's, where they differ and no case says so."""
    unlike: dict[str, tuple[object, object]] = {}
    for case in CASES:
        answer, recorded = answers[case.name], RECORDED["answers"][case.name]
        if case.ours is not None:
            if (answer["status"], answer["body"]) != case.ours:
                unlike[case.name] = (case.ours, answer)
        elif answer != recorded:
            unlike[case.name] = (recorded, answer)
    return unlike


def test_scripts_are_answered_as_recorded_from_microsofts_server():
    played = play(INFERENCE_SCHEMA)
    assert differences(played["answers"]) == {}
    assert played["ends"] == RECORDED["ends"]


@pytest.mark.thorough
def test_scripts_are_answered_alike_where_flask_is_installed():
    assert differences(play(INFERENCE_SERVER)["answers"]) == {}


def test_recordings_hold_every_case_and_differences_are_real():
    assert {case.name for case in CASES} == set(RECORDED["answers"])
    assert len(CASES) >= 60

    def recorded(case: Case) -> tuple[object, object]:
        answer = RECORDED["answers"][case.name]
        return answer["status"], answer["body"]

    assert [case.name for case in CASES if case.ours is not None and case.ours == recorded(case)] == []

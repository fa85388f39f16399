"""kill -9 of the server while it runs a sweep: no trial is lost, none runs twice, and the sweep ends."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from drumbeat.model.errors import DrumbeatError
from drumbeat.model.states import State
from tests.real.house import until

from .mortal import Mortal, nothing_is_left

pytestmark = pytest.mark.feature("S5", "F5")

SWEEP = """
type: sweep
name: {name}
trial: {{code: ., command: "echo ${{{{search_space.x}}}} >>$DRUMBEAT_CHECKPOINT_DIR/runs; {then}"}}
sampling_algorithm: grid
search_space: {{x: {{type: choice, values: [1, 2, 3]}}}}
objective: {{goal: maximize, primary_metric: accuracy}}
limits: {{max_total_trials: 3, max_concurrent_trials: 2}}
drumbeat: {{grace_s: 3}}
"""
SHOWN = ("sweep.asked", "children.submitted")
MORE = (
    "submit.after_commit:2",
    "submit.before_commit:3",
    "loop.before_commit:2",
    "loop.after_commit:4",
    "effect.before:2",
)
POINTS = [*SHOWN, *(pytest.param(point, marks=pytest.mark.thorough) for point in MORE)]


def begin(mortal: Mortal, name: str, then: str = "true") -> str:
    folder = mortal.house.folder / name
    folder.mkdir()
    (folder / "train.py").write_text("")
    path = folder / "sweep.yml"
    path.write_text(SWEEP.format(name=name, then=then))
    mortal.ask(lambda: _submit(mortal, path, name))
    return name


def _submit(mortal: Mortal, path: Path, name: str) -> None:
    with contextlib.suppress(DrumbeatError):
        mortal.house.client.get(name)
        return
    mortal.house.client.submit(path)


@pytest.mark.parametrize("point", POINTS)
def test_sweep_runs_each_trial_once_when_its_server_is_killed(mortal: Mortal, point: str):
    mortal.light(point)
    try:
        name = begin(mortal, f"sweep-{point.replace('.', '-').replace(':', '-')}")
        until(lambda: mortal.job(name).has_ended, 60, f"the end of {name}")
        assert mortal.has_burnt, f"no process came to {point}"
    finally:
        mortal.put_out()
    assert mortal.job(name).state == State.COMPLETED
    jobs = mortal.house.client.list(parent=name)
    assert sorted(job.name for job in jobs) == [f"{name}_{number}" for number in range(3)]
    assert {job.state for job in jobs} == {State.COMPLETED}
    runs = sorted(mortal.house.home.glob(f"jobs/{name}_*/checkpoints/runs"))
    assert [run.read_text() for run in runs] == ["1\n", "2\n", "3\n"]
    assert [trial.parameters for trial in mortal.house.client.sweep(name).trials] == [{"x": 1}, {"x": 2}, {"x": 3}]
    nothing_is_left(mortal, name)


@pytest.mark.parametrize("point", ["children.canceled", pytest.param("effect.before:2", marks=pytest.mark.thorough)])
def test_canceled_sweep_leaves_no_trial_when_its_server_is_killed(mortal: Mortal, point: str):
    name = begin(mortal, f"canceled-{point.replace('.', '-').replace(':', '-')}", then="sleep 600")
    ranks = mortal.house.home.glob
    until(lambda: len([*ranks(f"jobs/{name}_*/checkpoints/runs")]) == 2, 60, "two trials at work")
    mortal.light(point)
    try:
        mortal.ask(lambda: mortal.house.client.cancel(name))
        until(lambda: mortal.job(name).has_ended, 60, f"the end of {name}")
    finally:
        mortal.put_out()
    assert mortal.job(name).state == State.CANCELED
    assert {job.state for job in mortal.house.client.list(parent=name)} == {State.CANCELED}
    nothing_is_left(mortal, name)

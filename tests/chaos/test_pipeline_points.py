"""kill -9 of the server while it runs a pipeline: no step is lost, none runs twice, what is reused stays so."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from drumbeat.model.errors import DrumbeatError
from drumbeat.model.states import State
from tests.real.house import until

from .mortal import Mortal, nothing_is_left

pytestmark = pytest.mark.feature("P1", "F5")

PIPELINE = """
type: pipeline
name: {name}
drumbeat: {{grace_s: 3}}
jobs:
  first:
    command: echo {seed} >>$DRUMBEAT_CHECKPOINT_DIR/runs; echo {seed} > ${{{{outputs.out}}}}/n; {then}
    outputs: {{out: }}
  left:
    command: cat ${{{{inputs.n}}}}/n >>$DRUMBEAT_CHECKPOINT_DIR/runs
    inputs: {{n: "${{{{parent.jobs.first.outputs.out}}}}"}}
  right:
    command: cat ${{{{inputs.n}}}}/n >>$DRUMBEAT_CHECKPOINT_DIR/runs; echo {seed}
    inputs: {{n: "${{{{parent.jobs.first.outputs.out}}}}"}}
"""
SHOWN = ("children.planned:2", "submit.after_commit:2", "children.submitted:3")
POINTS = [
    pytest.param(point, marks=() if point in SHOWN[:1] else pytest.mark.thorough)
    for point in (*SHOWN, "submit.before_commit:3", "loop.before_commit:2", "loop.after_commit:4", "effect.before:2")
]


def begin(mortal: Mortal, name: str, seed: str, then: str = "true") -> str:
    folder = mortal.house.folder / name
    folder.mkdir()
    path = folder / "pipeline.yml"
    path.write_text(PIPELINE.format(name=name, seed=seed, then=then))
    mortal.ask(lambda: _submit(mortal, path, name))
    return name


def _submit(mortal: Mortal, path: Path, name: str) -> None:
    with contextlib.suppress(DrumbeatError):
        mortal.house.client.get(name)
        return
    mortal.house.client.submit(path)


def named(kind: str, point: str) -> str:
    return f"{kind}-{point.replace('.', '-').replace(':', '-').replace('_', '-')}"


@pytest.mark.parametrize("point", POINTS)
def test_pipeline_runs_each_step_once_when_its_server_is_killed(mortal: Mortal, point: str) -> None:
    mortal.light(point)
    try:
        name = begin(mortal, named("steps", point), seed=point)
        until(lambda: mortal.job(name).has_ended, 90, f"the end of {name}")
        assert mortal.has_burnt, f"no process came to {point}"
    finally:
        mortal.put_out()
    assert mortal.job(name).state == State.COMPLETED
    jobs = mortal.house.client.list(parent=name)
    assert {job.name: job.state for job in jobs} == dict.fromkeys(
        (f"{name}_first", f"{name}_left", f"{name}_right"), State.COMPLETED
    )
    runs = sorted(mortal.house.home.glob(f"jobs/{name}_*/checkpoints/runs"))
    assert [run.read_text() for run in runs] == [f"{point}\n"] * 3
    nothing_is_left(mortal, name)


@pytest.mark.thorough
@pytest.mark.parametrize("point", ["children.reused", "children.reused:3", "children.planned:2"])
def test_reused_steps_stay_reused_when_the_server_is_killed(mortal: Mortal, point: str) -> None:
    first = begin(mortal, named("once", point), seed=named("seed", point))
    until(lambda: mortal.job(first).has_ended, 90, f"the end of {first}")
    mortal.light(point)
    try:
        again = begin(mortal, named("again", point), seed=named("seed", point))
        until(lambda: mortal.job(again).has_ended, 90, f"the end of {again}")
        assert mortal.has_burnt, f"no process came to {point}"
    finally:
        mortal.put_out()
    assert mortal.job(again).sentence == "3 steps completed, 3 of them reused"
    assert mortal.house.client.list(parent=again) == []
    assert [step.reused for step in mortal.house.client.pipeline(again).steps] == [
        f"{first}_{step}" for step in ("first", "left", "right")
    ]


@pytest.mark.thorough
@pytest.mark.parametrize("point", ["children.canceled", "effect.before:2"])
def test_canceled_pipeline_leaves_no_step_when_its_server_is_killed(mortal: Mortal, point: str) -> None:
    name = begin(mortal, named("canceled", point), seed=point, then="sleep 600")
    until(lambda: [*mortal.house.home.glob(f"jobs/{name}_*/checkpoints/runs")], 60, "a step at work")
    mortal.light(point)
    try:
        mortal.ask(lambda: mortal.house.client.cancel(name))
        until(lambda: mortal.job(name).has_ended, 90, f"the end of {name}")
    finally:
        mortal.put_out()
    assert mortal.job(name).state == State.CANCELED
    assert {job.state for job in mortal.house.client.list(parent=name)} == {State.CANCELED}
    nothing_is_left(mortal, name)

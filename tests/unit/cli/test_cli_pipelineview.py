"""The graph of a pipeline as text."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from drumbeat.cli.commands.plan_tables import render_pipeline, step_tree
from drumbeat.model.api.pipelines import PipelineOutputView, PipelineView, StepView
from drumbeat.model.states import JobKind, State

pytestmark = pytest.mark.feature("P1")


def a_step(name: str, *after: str) -> StepView:
    return StepView(name, f"p_{name}", JobKind.COMMAND, None, "", after)


def a_pipeline(state: State, *steps: StepView) -> PipelineView:
    return PipelineView("p", state, "", steps, outputs=(PipelineOutputView("model", steps[-1].name, "m"),))


def shown(pipeline: PipelineView) -> str:
    console = Console(file=io.StringIO(), width=100)
    console.print(*render_pipeline(pipeline, 100))
    return console.file.getvalue()  # type: ignore[attr-defined]


def test_steps_stand_below_a_step_whose_output_they_take():
    steps = (a_step("bad"), a_step("other"), a_step("after", "bad"), a_step("last", "bad", "after"))
    tree = [(step.name, level) for step, level in step_tree(a_pipeline(State.RUNNING, *steps).steps)]
    assert tree == [("bad", 0), ("after", 1), ("last", 2), ("other", 0)]


def test_chain_of_as_many_steps_as_a_pipeline_may_have_is_drawn():
    steps = [a_step("s0"), *(a_step(f"s{n}", f"s{n - 1}") for n in range(1, 1000))]
    assert [level for _, level in step_tree(a_pipeline(State.RUNNING, *steps).steps)] == list(range(1000))


def test_output_of_a_pipeline_that_has_ended_without_it_is_not_awaited():
    steps = (a_step("bad"), a_step("after", "bad"))
    assert "not yet" in shown(a_pipeline(State.RUNNING, *steps))
    ended = shown(a_pipeline(State.FAILED, *steps))
    assert "not yet" not in ended
    assert "none" in ended

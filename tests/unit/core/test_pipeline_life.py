"""The life of a pipeline: decided from levels, so that what is lost, doubled or late changes nothing."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drumbeat.core.child_jobs import PipelineProgress, StepProgress, step_name
from drumbeat.core.lifecycle.events import (
    CancelChild,
    CancelRequested,
    ChildPostponed,
    ChildRefused,
    ChildrenSeen,
    ChildStatus,
    Decision,
    Event,
    StepReused,
    SubmitChild,
)
from drumbeat.core.lifecycle.job import Job
from drumbeat.core.lifecycle.state_machine import decide
from drumbeat.core.scheduling.resource_needs import JobPolicy, Need
from drumbeat.model.plan import Plan
from drumbeat.model.states import JobKind, Reason, State
from tests.support.messages import Messages

pytestmark = pytest.mark.feature("P1")

NOW = datetime(2026, 1, 1, tzinfo=UTC)
DIAMOND = {"prep": (), "left": ("prep",), "right": ("prep",), "join": ("left", "right"), "alone": ()}


def make_pipeline(after: dict[str, tuple[str, ...]] = DIAMOND, *, is_continued: bool = False) -> Job:
    steps = tuple(StepProgress(path, names, is_continued=is_continued) for path, names in after.items())
    plan = Plan("p", "e", "pipeline", 0, 0, "", ())
    job = Job("p", plan, Need(0, 0), JobPolicy(), NOW, State.RUNNING, Reason.STEPS_RUNNING, started_at=NOW)
    return replace(job, pipeline=PipelineProgress(steps))


class Life:
    """A pipeline, its steps' jobs, and the effects that its decisions asked for."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.submitted: list[str] = []
        self.canceled: list[str] = []
        self.sentences: list[str] = []
        self.states: dict[str, State] = {}

    def apply(self, event: Event) -> Decision:
        decision = decide(self.job, event, NOW)
        self.job = decision.job
        self.submitted += [one.job for one in decision.effects if isinstance(one, SubmitChild)]
        self.canceled += [one.job for one in decision.effects if isinstance(one, CancelChild)]
        self.sentences += [line.sentence for line in decision.events]
        return decision

    def see(self, **states: State) -> Decision:
        self.states |= states
        return self.apply(ChildrenSeen(tuple(ChildStatus(f"p_{one}", state) for one, state in self.states.items())))

    def step(self, path: str) -> StepProgress:
        assert self.job.pipeline
        found = self.job.pipeline.step(path)
        assert found
        return found


def test_steps_are_submitted_when_those_before_them_have_completed(messages: Messages) -> None:
    life = Life(make_pipeline())
    assert life.job.kind is JobKind.PIPELINE
    life.see()
    assert life.submitted == ["p_prep", "p_alone"]
    life.see(prep=State.RUNNING, alone=State.COMPLETED)
    assert life.submitted == ["p_prep", "p_alone"]
    life.see(prep=State.COMPLETED)
    assert life.submitted[2:] == ["p_left", "p_right"]
    life.see(left=State.COMPLETED, right=State.RUNNING)
    life.see(right=State.COMPLETED)
    assert life.submitted[4:] == ["p_join"]
    life.see(join=State.COMPLETED)
    assert (life.job.state, life.job.reason) == (State.COMPLETED, Reason.STEPS_ENDED)
    assert life.job.sentence == "5 steps completed"
    messages.check(*life.sentences)


def test_repeated_or_late_level_changes_nothing() -> None:
    life = Life(make_pipeline())
    life.see()
    life.see(prep=State.RUNNING)
    before = life.job
    assert not life.see().events
    life.apply(ChildrenSeen((ChildStatus("p_alone", State.QUEUED),)))
    assert life.step("prep").state is State.RUNNING
    assert replace(life.job, pipeline=None, sentence="") == replace(before, pipeline=None, sentence="")
    assert life.submitted == ["p_prep", "p_alone"]


def test_a_failed_step_ends_the_pipeline_and_names_the_steps_that_never_ran(messages: Messages) -> None:
    life = Life(make_pipeline())
    life.see(prep=State.COMPLETED, alone=State.RUNNING)
    life.see(left=State.FAILED, right=State.RUNNING)
    assert life.job.state is State.STOPPING
    assert life.canceled == ["p_right", "p_alone"]
    messages.check(life.step("join").skipped)
    life.see(right=State.CANCELED, alone=State.CANCELED)
    assert (life.job.state, life.job.reason) == (State.FAILED, Reason.STEP_FAILED)
    messages.check(life.job.sentence)


def test_other_branches_continue_after_a_failure_where_the_setting_says_so(messages: Messages) -> None:
    life = Life(make_pipeline(is_continued=True))
    life.see(prep=State.COMPLETED, alone=State.RUNNING)
    life.see(left=State.FAILED, right=State.RUNNING)
    assert life.job.state is State.RUNNING
    messages.check(life.step("join").skipped)
    life.see(right=State.COMPLETED, alone=State.COMPLETED)
    assert life.job.state is State.FAILED
    assert life.canceled == []
    messages.check(life.job.sentence)


def test_steps_behind_a_step_that_is_not_run_are_not_run_either(messages: Messages) -> None:
    life = Life(make_pipeline({"a": (), "b": ("a",), "c": ("b",)}, is_continued=True))
    life.see(a=State.FAILED)
    messages.check(*[life.step(path).skipped for path in "bc"])  # fmt: skip
    assert life.job.state is State.FAILED


def test_a_reused_step_is_complete_without_a_job(messages: Messages) -> None:
    life = Life(make_pipeline({"a": (), "b": ("a",)}))
    life.see()
    life.apply(StepReused("p_a", "old_a"))
    assert (life.step("a").reused, life.step("a").state) == ("old_a", State.COMPLETED)
    assert life.submitted == ["p_a", "p_b"]
    life.apply(StepReused("p_a", "older_a"))
    assert life.step("a").reused == "old_a"
    assert life.job.pipeline
    assert life.job.pipeline.result_job("p", "a") == "old_a"
    life.see(b=State.COMPLETED)
    messages.check(life.job.sentence)
    messages.check(*life.sentences)


def test_a_step_whose_job_is_refused_fails(messages: Messages) -> None:
    life = Life(make_pipeline({"a": (), "b": ("a",)}))
    life.see()
    life.apply(ChildRefused("p_a", "there is no compute x"))
    assert (life.job.state, life.step("a").state) == (State.FAILED, State.FAILED)
    messages.check(life.job.sentence)


def test_step_whose_compute_is_unusable_waits_and_says_so_once(messages: Messages) -> None:
    life = Life(make_pipeline({"a": (), "b": ("a",)}))
    life.see()
    for _ in range(2):
        life.apply(ChildPostponed("p_a", "compute box can't be used: no answer"))
        life.see()
    messages.check(*life.sentences)
    life.see(a=State.COMPLETED)
    assert (life.job.state, life.submitted) == (State.RUNNING, ["p_a", "p_b"])


def test_numbers_of_a_steps_trouble_that_change_are_no_news(messages: Messages) -> None:
    life = Life(make_pipeline({"a": ()}))
    life.see()
    for seconds in (30, 29, 9):
        life.apply(ChildPostponed("p_a", f"compute box can't be used: asked again in {seconds} s"))
    messages.check(*life.sentences)
    life.apply(ChildPostponed("p_a", "compute box can't be used: no answer"))
    assert len(life.sentences) == 2


def test_a_canceled_pipeline_ends_when_its_steps_have_ended() -> None:
    life = Life(make_pipeline())
    life.see()
    life.see(prep=State.RUNNING)
    life.apply(CancelRequested("a person"))
    assert (life.job.state, life.canceled) == (State.STOPPING, ["p_prep"])
    life.apply(ChildRefused("p_alone", "not submitted: its parent was being stopped"))
    assert life.job.state is State.STOPPING
    life.see(prep=State.CANCELED)
    assert (life.job.state, life.job.sentence) == (State.CANCELED, "canceled by a person")
    assert life.submitted == ["p_prep", "p_alone"]


def test_a_request_to_cancel_outranks_a_failure_that_is_being_ended() -> None:
    life = Life(make_pipeline())
    life.see(prep=State.RUNNING, alone=State.FAILED)
    assert life.job.state is State.STOPPING
    life.apply(CancelRequested("a person"))
    life.see(prep=State.CANCELED)
    assert life.job.state is State.CANCELED


def test_names_of_steps_jobs_never_meet() -> None:
    paths = ["a", "a_b", "a/b", "a_b/c", "a/b_c", "a/b/c"]
    assert len({step_name("p", path) for path in paths}) == len(paths)


@given(st.data())
def test_every_pipeline_ends_and_submits_each_step_at_most_once(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 6))
    after = {
        f"s{n}": tuple(data.draw(st.sets(st.sampled_from([f"s{m}" for m in range(n)])))) if n else ()
        for n in range(count)
    }
    life = Life(make_pipeline(after, is_continued=data.draw(st.booleans())))
    life.see()
    for _ in range(8 * count):
        if life.job.state.is_terminal:
            break
        waiting = [job.removeprefix("p_") for job in life.submitted if not life.step(job.removeprefix("p_")).has_ended]
        assert waiting
        path = data.draw(st.sampled_from(waiting))
        kind = data.draw(st.sampled_from(["run", "end", "fail", "reuse", "refuse", "postpone", "cancel", "again"]))
        if kind == "reuse":
            life.apply(StepReused(f"p_{path}", "old"))
        elif kind == "refuse":
            life.apply(ChildRefused(f"p_{path}", "no"))
        elif kind == "postpone":
            life.apply(ChildPostponed(f"p_{path}", "not now"))
        elif kind == "cancel" and data.draw(st.integers(0, 5)) == 0:
            life.apply(CancelRequested("a person"))
        else:
            states = {"run": State.RUNNING, "fail": State.FAILED}
            ended = State.CANCELED if life.job.state is State.STOPPING else State.COMPLETED
            life.see(**({} if kind == "again" else {path: states.get(kind, ended)}))
    while not life.job.state.is_terminal:
        waiting = [job.removeprefix("p_") for job in life.submitted if not life.step(job.removeprefix("p_")).has_ended]
        life.see(**dict.fromkeys(waiting, State.COMPLETED))
    assert len(life.submitted) == len(set(life.submitted))
    for path, sources in after.items():
        if f"p_{path}" in life.submitted:
            assert all(life.step(source).is_done for source in sources)

"""The life of a sweep: decided from levels, so that what is lost, doubled or late changes nothing."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from drumbeat.core.child_jobs import SweepProgress, trial_name
from drumbeat.core.lifecycle.events import (
    CancelChild,
    CancelRequested,
    ChildPostponed,
    ChildRefused,
    ChildrenSeen,
    ChildStatus,
    Decision,
    Event,
    OutputPublished,
    ProposeTrials,
    SamplerRefused,
    SubmitChild,
    TimeUp,
    TrialsProposed,
)
from drumbeat.core.lifecycle.job import Job, Published
from drumbeat.core.lifecycle.output_publication import is_over
from drumbeat.core.lifecycle.state_machine import decide
from drumbeat.core.lifecycle.sweep import MAX_FAILED_AT_FIRST, leading_trial
from drumbeat.core.scheduling.resource_needs import JobPolicy, Need
from drumbeat.model.plan import OutputPlan, Plan
from drumbeat.model.states import Reason, State
from tests.support.messages import Messages

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def make_sweep(max_trials: int = 4, max_concurrent: int = 2, goal: str = "maximize", **more: object) -> Job:
    plan = Plan("s", "e", "sweep", 0, 0, "python train.py", ())
    progress = SweepProgress(goal, "accuracy", max_trials, max_concurrent, **more)  # pyright: ignore[reportArgumentType]
    job = Job("s", plan, Need(0, 0), JobPolicy(), NOW, State.RUNNING, Reason.TRIALS_RUNNING, started_at=NOW)
    return replace(job, sweep=progress)


class Life:
    """A sweep and the effects that its decisions asked for."""

    def __init__(self, job: Job) -> None:
        self.job, self.effects, self.sentences = job, [], []
        self.states: dict[int, State] = {}
        self.reports: dict[int, list[float]] = {}

    def apply(self, event: Event) -> Decision:
        decision = decide(self.job, event, NOW)
        self.job = decision.job
        self.effects += decision.effects
        self.sentences += [line.sentence for line in decision.events]
        return decision

    def look(self) -> Decision:
        children = tuple(ChildStatus(trial_name("s", n), state) for n, state in self.states.items())
        return self.apply(ChildrenSeen(children, self.reports))

    def propose(self, count: int, *, is_exhausted: bool = False) -> None:
        first = len(self.trials)
        values = tuple({"lr": 0.1 * (first + n)} for n in range(count))
        self.apply(TrialsProposed(first, values, is_exhausted))
        self.states |= {first + n: State.QUEUED for n in range(count)}

    def end(self, number: int, state: State = State.COMPLETED, *values: float) -> None:
        self.states[number] = state
        self.reports[number] = [*values]
        self.look()

    def take(self, kind: type) -> list[object]:
        chosen = [one for one in self.effects if isinstance(one, kind)]
        self.effects = [one for one in self.effects if not isinstance(one, kind)]
        return chosen

    @property
    def trials(self) -> tuple[object, ...]:
        return self.job.sweep.trials if self.job.sweep else ()


def test_sweep_keeps_its_trials_at_the_concurrent_maximum_until_the_total() -> None:
    life = Life(make_sweep(max_trials=3, max_concurrent=2))
    life.look()
    assert life.take(ProposeTrials) == [ProposeTrials(0, 0, 2)]
    life.propose(2)
    assert life.take(SubmitChild) == [SubmitChild(0, "s_0"), SubmitChild(0, "s_1")]
    life.look()
    assert life.effects == []
    life.end(0, State.COMPLETED, 0.5)
    assert life.take(ProposeTrials) == [ProposeTrials(0, 2, 1)]
    life.propose(1)
    life.end(2, State.COMPLETED, 0.9)
    assert life.job.state is State.RUNNING
    life.end(1, State.FAILED)
    assert (life.job.state, life.job.reason) == (State.COMPLETED, Reason.TRIALS_ENDED)
    assert "best s_2: accuracy 0.9" in life.job.sentence
    assert "1 failed" in life.job.sentence


def test_event_that_comes_twice_changes_nothing() -> None:
    life = Life(make_sweep())
    life.look()
    assert life.look().job == life.job
    life.propose(2)
    before, effects = life.job, list(life.effects)
    assert life.apply(TrialsProposed(0, ({"lr": 9},) * 2)).effects == ()
    assert (life.job, life.effects) == (before, effects)


def test_trial_that_completes_before_its_cancellation_counts_as_completed() -> None:
    life = Life(make_sweep(max_trials=2, rule={"type": "bandit", "slack_amount": 0.1}))
    life.look()
    life.propose(2)
    life.states, life.reports = dict.fromkeys((0, 1), State.RUNNING), {0: [0.1, 0.9], 1: [0.1, 0.4]}
    life.look()
    assert life.job.sweep is not None
    assert life.job.sweep.trials[1].stopped
    life.states = dict.fromkeys((0, 1), State.COMPLETED)
    life.look()
    assert life.job.sweep is not None
    assert [(one.state, one.stopped, one.is_canceling) for one in life.job.sweep.trials] == [
        (State.COMPLETED, "", False)
    ] * 2
    assert "early" not in life.job.sentence


def test_exhausted_sampler_ends_the_sweep_before_the_total() -> None:
    life = Life(make_sweep(max_trials=100))
    life.look()
    life.propose(1, is_exhausted=True)
    life.end(0, State.COMPLETED, 1.0)
    assert life.job.state is State.COMPLETED


def test_sampler_that_has_nothing_to_propose_ends_the_sweep_as_failed() -> None:
    life = Life(make_sweep())
    life.look()
    life.propose(0, is_exhausted=True)
    assert life.job.reason is Reason.TRIALS_FAILED
    assert life.job.verdict is not None
    assert life.job.verdict.advice == ""


def test_best_trial_follows_the_goal_and_counts_failed_trials_too() -> None:
    for goal in ("maximize", "minimize"):
        life = Life(make_sweep(max_trials=4, max_concurrent=4, goal=goal))
        life.look()
        life.propose(4)
        life.end(0, State.COMPLETED, 0.5, float("nan"))
        life.end(1, State.COMPLETED, 0.9, 0.1 if goal == "maximize" else 0.9)
        life.end(2, State.COMPLETED, 0.2)
        life.end(3, State.FAILED, 0.99 if goal == "maximize" else 0.01)
        assert life.job.sweep is not None
        found = leading_trial(life.job.sweep)
        assert found is not None
        assert found.number == 3


def test_first_trial_that_completes_without_the_metric_is_reported_at_once() -> None:
    life = Life(make_sweep())
    life.look()
    life.propose(2)
    life.end(0)
    assert any("without a value of the primary metric `accuracy`" in one for one in life.sentences)
    life.propose(1)
    life.end(1)
    assert sum("without a value" in one for one in life.sentences) == 1


def test_sweep_is_given_up_when_its_first_trials_all_fail(messages: Messages) -> None:
    life = Life(make_sweep(max_trials=100, max_concurrent=MAX_FAILED_AT_FIRST))
    life.look()
    life.propose(MAX_FAILED_AT_FIRST)
    for number in range(MAX_FAILED_AT_FIRST):
        life.end(number, State.FAILED)
    assert (life.job.state, life.job.reason) == (State.FAILED, Reason.TRIALS_FAILED)
    assert life.job.verdict is not None
    messages.check(life.job.verdict.advice)


def test_canceled_sweep_cancels_its_trials_and_ends_when_they_have() -> None:
    life = Life(make_sweep())
    life.look()
    life.propose(2)
    life.states = {0: State.RUNNING, 1: State.QUEUED}
    life.look()
    life.apply(CancelRequested("a person"))
    assert life.job.state is State.STOPPING
    assert [one.job for one in life.take(CancelChild) if isinstance(one, CancelChild)] == ["s_0", "s_1"]
    life.look()
    assert life.take(CancelChild) == []
    life.end(0, State.CANCELED)
    assert life.job.state is State.STOPPING
    life.end(1, State.CANCELED)
    assert (life.job.state, life.job.reason) == (State.CANCELED, Reason.CANCEL_REQUESTED)


def test_sweep_that_stops_waits_for_trials_that_are_being_submitted() -> None:
    life = Life(make_sweep())
    life.look()
    life.propose(2)
    life.states = {}
    life.apply(TimeUp()) if life.job.policy.timeout_s else life.apply(CancelRequested("a person"))
    assert life.job.state is State.STOPPING
    life.states = {0: State.QUEUED}  # Its submission was under way.
    life.look()
    assert life.take(CancelChild) == [CancelChild(0, "s_0", "the sweep")]
    life.apply(ChildRefused("s_1", "not submitted"))
    life.end(0, State.CANCELED)
    assert life.job.state is State.CANCELED


def test_trial_that_cannot_be_submitted_counts_as_failed() -> None:
    life = Life(make_sweep(max_trials=2))
    life.look()
    life.propose(2)
    life.apply(ChildRefused("s_0", "no compute named 'gpu'"))
    life.end(1, State.COMPLETED, 0.5)
    assert life.job.state is State.COMPLETED
    assert "1 failed" in life.job.sentence


def test_policy_ends_a_trial_early_once_and_its_metric_counts() -> None:
    rule = {"type": "bandit", "slack_amount": 0.2, "evaluation_interval": 1}
    life = Life(make_sweep(max_trials=2, max_concurrent=2, rule=rule))
    life.look()
    life.propose(2)
    life.states = {0: State.RUNNING, 1: State.RUNNING}
    life.reports = {0: [0.9, 0.5], 1: [0.4]}
    life.look()
    (stop,) = life.take(CancelChild)
    assert isinstance(stop, CancelChild)
    assert stop.job == "s_1"
    assert stop.by.startswith("the sweep: ")
    life.reports = {0: [0.5, 0.9, 0.95], 1: [0.4, 0.41]}
    life.look()
    assert life.take(CancelChild) == []
    life.end(1, State.CANCELED, 0.4, 0.41)
    life.end(0, State.COMPLETED, 0.5, 0.9, 0.95)
    assert life.job.state is State.COMPLETED
    assert "1 of them early" in life.job.sentence


def test_sweep_at_its_time_limit_ends_as_timed_out() -> None:
    life = Life(replace(make_sweep(), policy=JobPolicy(timeout_s=5)))
    assert life.job.deadline == NOW + timedelta(seconds=5)
    life.look()
    life.propose(2)
    life.look()
    life.apply(TimeUp())
    for number in (0, 1):
        life.end(number, State.CANCELED)
    assert (life.job.state, life.job.reason) == (State.FAILED, Reason.TIMED_OUT)


@pytest.mark.parametrize("state", [State.COMPLETED, State.FAILED, State.CANCELED])
def test_ended_sweep_ignores_every_event(state: State) -> None:
    job = replace(make_sweep(), state=state)
    for event in (ChildrenSeen(), TrialsProposed(0, ({},)), CancelRequested("a person"), TimeUp()):
        assert decide(job, event, NOW).job == job


def test_sweep_whose_sampler_refuses_fails_when_its_trials_have_ended(messages: Messages):
    life = Life(make_sweep())
    life.look()
    life.propose(1)
    life.states = {0: State.RUNNING}
    life.apply(SamplerRefused("Optuna is gone"))
    assert life.job.state is State.STOPPING
    life.states = {0: State.CANCELED}
    life.look()
    assert (life.job.state, life.job.reason) == (State.FAILED, Reason.TRIALS_FAILED)
    messages.check(life.job.sentence)


def test_trial_whose_compute_is_unusable_waits_and_says_so_once() -> None:
    life = Life(make_sweep(max_trials=4))
    life.look()
    life.propose(2)
    life.states = {}
    for _ in range(2):
        life.apply(ChildPostponed("s_0", "compute box can't be used: no answer"))
        life.look()
    life.apply(ChildPostponed("s_1", "compute box can't be used: no answer"))
    says = "0 of 4 trials ended, trials wait: compute box can't be used: no answer"
    assert (life.job.sentence, life.sentences.count(says)) == (says, 1)
    life.states = {0: State.RUNNING}
    life.look()
    assert (life.job.sentence, life.sentences.count(says)) == (says, 1)
    life.states = {0: State.RUNNING, 1: State.QUEUED}
    life.look()
    assert life.job.sentence == "0 of 4 trials ended"
    assert [one.state for one in life.job.sweep.trials] == [State.RUNNING, State.QUEUED]


def test_numbers_of_a_trials_trouble_that_change_are_no_news() -> None:
    life = Life(make_sweep(max_trials=4))
    life.look()
    life.propose(1)
    life.states = {}
    before = len(life.sentences)
    for seconds in (30, 29, 9):
        life.apply(ChildPostponed("s_0", f"compute box can't be used: asked again in {seconds} s"))
    says = "0 of 4 trials ended, trials wait: compute box can't be used: asked again in 30 s"
    assert life.sentences[before:] == [says]


def test_sweep_that_has_ended_takes_word_of_its_outputs(messages: Messages):
    output = OutputPlan("model", "uri_folder", "upload", asset="swept")
    sweep = make_sweep(max_trials=1)
    ended = replace(sweep, state=State.COMPLETED, plan=replace(sweep.plan, outputs=(output,)))
    assert not is_over(ended)
    done = decide(ended, OutputPublished(Published("model", "azureml://jobs/s_0", 1, 4, "swept:1")), NOW)
    assert is_over(done.job)
    messages.check(done.events[0].sentence)


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ([(math.nan,), (math.nan, math.nan)], "all 2 trials reported only NaN as `accuracy`"),
        ([(-math.inf,), (math.nan,)], "all 2 trials reported only NaN or infinity as `accuracy`"),
        ([(math.nan,), ()], "1 trial reported only NaN as `accuracy`, and the others reported nothing"),
        ([(), ()], "no trial reported `accuracy`"),
    ],
)
def test_sweep_without_a_number_says_what_its_trials_reported(values: list[tuple[float, ...]], sentence: str) -> None:
    life = Life(make_sweep(max_trials=2))
    life.look()
    life.propose(2)
    for number, reported in enumerate(values):
        life.end(number, State.COMPLETED, *reported)
    assert life.job.sentence == f"2 trials ended; {sentence}"


def test_trial_counts_with_the_values_of_a_run_beside_its_own_and_the_story_says_so(messages: Messages) -> None:
    life = Life(make_sweep(max_trials=2))
    life.look()
    life.propose(1)
    life.apply(ChildrenSeen((ChildStatus("s_0", State.COMPLETED),), {0: [0.5, 0.75]}, runs={0: "fold-0"}))
    assert any("it counts with 2 values of its run fold-0" in one for one in life.sentences)
    messages.check(life.sentences[-1])

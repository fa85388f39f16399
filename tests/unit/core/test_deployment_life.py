"""The life of a deployment: which replicas are started and ended, decided from levels."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from random import Random

import pytest

from drumbeat.core.child_jobs import DeploymentProgress, ReplicaProgress, replica_name
from drumbeat.core.lifecycle.deployment import SLOT_PATIENCE, STEADY_AFTER
from drumbeat.core.lifecycle.events import (
    CancelChild,
    CancelRequested,
    ChildPostponed,
    ChildRefused,
    ChildrenSeen,
    ChildStatus,
    DeploymentAsked,
    Event,
    ReplicasSeen,
    SubmitChild,
)
from drumbeat.core.lifecycle.job import Job
from drumbeat.core.lifecycle.state_machine import decide
from drumbeat.core.scheduling.resource_needs import JobPolicy, Need
from drumbeat.model.plan import Plan
from drumbeat.model.states import JobKind, Reason, State

NOW = datetime(2026, 1, 1, tzinfo=UTC)


class Life:
    """A deployment, and a world that carries out its effects: jobs of replicas, and the router that they dial."""

    def __init__(self, wanted: int = 2, slots: int = 100) -> None:
        plan = Plan("d", "e", "deployment", 0, 0, "python", ())
        job = Job("d", plan, Need(0, 0), JobPolicy(), NOW, State.RUNNING, Reason.REPLICAS_RUNNING, started_at=NOW)
        self.job = replace(job, deployment=DeploymentProgress("ships", "blue", wanted=0))
        self.now, self.slots = NOW, slots
        self.states: dict[str, State] = {}
        self.ready: set[str] = set()
        self.failures: dict[str, tuple[int, str]] = {}
        """Of jobs that were started again: how often, and why."""
        self.broken: set[int] = set()
        """Generations whose replicas fail at their start."""
        self.sentences: list[str] = []
        self.apply(DeploymentAsked(1, wanted))

    @property
    def progress(self) -> DeploymentProgress:
        assert self.job.deployment is not None
        return self.job.deployment

    def apply(self, event: Event) -> None:
        decision = decide(self.job, event, self.now)
        self.job = decision.job
        self.sentences += [line.sentence for line in decision.events]
        for effect in decision.effects:
            if isinstance(effect, SubmitChild):
                assert effect.job not in self.states, f"{effect.job} is submitted twice"
                self.states[effect.job] = State.QUEUED
            elif isinstance(effect, CancelChild) and not self.states[effect.job].is_terminal:
                self.states[effect.job] = State.STOPPING
                self.ready.discard(effect.job)

    def replica(self, job: str) -> ReplicaProgress:
        found = self.progress.replica("d", job)
        assert found is not None
        return found

    def generation(self, job: str) -> int:
        found = self.progress.replica("d", job)
        return found.generation if found else 0

    @property
    def alive(self) -> list[str]:
        return [job for job, state in self.states.items() if not state.is_terminal]

    def look(self) -> None:
        """The server looks at the jobs and at the router."""
        children = tuple(
            ChildStatus(job, state, f"it is {state}", 0.0, state is State.QUEUED, *self.failures.get(job, ()))
            for job, state in self.states.items()
        )
        self.apply(ChildrenSeen(children))
        self.apply(ReplicasSeen(frozenset(self.ready)))

    def go_on(self) -> None:
        """A second passes: jobs begin where there is a slot, replicas become ready or fail, those that leave end."""
        self.now += timedelta(seconds=1)
        for job in self.alive:
            state, held = self.states[job], sum(self.states[one] is not State.QUEUED for one in self.alive)
            if state is State.STOPPING:
                self.states[job] = State.CANCELED
            elif state is State.QUEUED and held < self.slots:
                self.states[job] = State.RUNNING
            elif state is State.RUNNING and self.generation(job) in self.broken:
                self.states[job] = State.FAILED
            elif state is State.RUNNING:
                self.ready.add(job)
        self.look()

    def settle(self, seconds: int = 60) -> None:
        for _ in range(seconds):
            self.go_on()

    def count_ready(self, generation: int = 0) -> int:
        return sum(generation in (0, self.generation(job)) for job in self.ready)


def test_deployment_submits_the_wanted_replicas_and_says_how_many_are_ready():
    life = Life(wanted=2)
    assert life.job.kind is JobKind.DEPLOYMENT
    assert life.alive == ["d_0", "d_1"]
    life.settle(3)
    assert (life.count_ready(), life.job.sentence) == (2, "2 of 2 replicas ready")
    assert life.sentences == ["0 of 2 replicas ready", "2 of 2 replicas ready"]


def test_failures_of_a_replica_that_was_started_again_are_named_until_they_are_forgotten():
    life = Life(wanted=2)
    life.settle(3)
    killed = "rank 0 was ended by SIGKILL at the memory limit of 300 MiB; because of that it restarts"
    for failures, said in ((1, "failed once"), (3, "failed 3 times, the last time")):
        life.failures["d_1"] = (failures, f"{killed}.")
        life.look()
        assert life.job.sentence == f"2 of 2 replicas ready; replica 1 {said}: {killed}"
    count = len(life.sentences)
    life.look()
    assert len(life.sentences) == count
    life.failures.clear()
    life.look()
    assert life.job.sentence == "2 of 2 replicas ready"


def test_new_generation_replaces_one_by_one_and_never_has_fewer_ready_than_wanted():
    life = Life(wanted=3)
    life.settle(3)
    life.apply(DeploymentAsked(2, 3))
    for _ in range(40):
        life.go_on()
        assert life.count_ready() >= 3
        assert len(life.alive) <= 4
    assert life.count_ready(2) == 3
    assert life.alive == sorted(life.ready)
    assert (life.progress.serving, life.job.sentence) == (2, "3 of 3 replicas ready")


def test_without_a_free_slot_one_fewer_serves_meanwhile_and_the_sentence_says_so():
    life = Life(wanted=2, slots=2)
    life.settle(3)
    life.apply(DeploymentAsked(2, 2))
    for _ in range(60):
        life.go_on()
        assert life.count_ready() >= 1
    assert life.count_ready(2) == 2
    assert any("no slot is free" in one for one in life.sentences)


def test_slot_that_is_late_costs_no_replica():
    life = Life(wanted=2, slots=2)
    life.settle(3)
    life.apply(DeploymentAsked(2, 2))
    for _ in range(int(SLOT_PATIENCE.total_seconds()) - 1):
        life.go_on()
        assert life.count_ready() == 2


def test_generation_that_never_becomes_ready_is_given_up_and_the_one_before_goes_on():
    life = Life(wanted=2)
    life.settle(3)
    life.broken = {2}
    life.apply(DeploymentAsked(2, 2))
    for _ in range(30):
        life.go_on()
        assert life.count_ready(1) == 2
    assert (life.progress.failed, life.progress.target, len(life.alive)) == (2, 1, 2)
    assert "generation 2 was given up (d_2: it is failed), and generation 1 goes on" in life.job.sentence
    life.apply(DeploymentAsked(3, 2))
    life.settle()
    assert (life.count_ready(3), life.job.sentence) == (2, "2 of 2 replicas ready")


def test_given_up_generation_that_had_taken_a_slot_gives_it_back_to_the_one_before():
    life = Life(wanted=1, slots=1)
    life.settle(3)
    life.broken = {2}
    life.apply(DeploymentAsked(2, 1))
    life.settle(30)
    assert (life.count_ready(1), life.progress.failed) == (1, 2)


def test_first_generation_that_fails_ends_the_deployment_with_the_reason():
    life = Life(wanted=2)
    life.broken = {1}
    life.settle(10)
    assert (life.job.state, life.job.reason) == (State.FAILED, Reason.REPLICAS_FAILED)
    assert "no replica became ready; d_0: it is failed" in life.job.sentence
    assert not life.alive


def test_replica_that_runs_for_too_long_without_being_ready_is_a_failure():
    life = Life(wanted=1)
    life.apply(DeploymentAsked(1, 1, ready_within_s=20))
    life.states["d_0"] = State.RUNNING
    life.look()
    life.now += timedelta(seconds=19)
    life.look()
    assert life.job.state is State.RUNNING
    life.now += timedelta(seconds=1)
    life.look()
    assert life.job.state is State.STOPPING
    assert "not ready 20 s after its start (readiness_probe)" in life.job.sentence


def test_replica_that_dies_later_is_replaced_with_pauses_that_are_forgotten():
    life = Life(wanted=1)
    life.settle(3)
    pauses: list[float] = []
    for _ in range(4):
        [job] = life.alive
        life.states[job], life.ready, failed_at = State.FAILED, set(), life.now
        while not life.alive:
            life.go_on()
        pauses.append((life.now - failed_at).total_seconds())
        life.settle(3)
    assert pauses == [2, 3, 5, 9]  # It is seen after a second.
    life.settle(int(STEADY_AFTER.total_seconds()) + 1)
    assert life.progress.failures == 0
    assert life.count_ready() == 1


def test_fewer_wanted_replicas_end_the_newest_and_zero_ends_all():
    life = Life(wanted=3)
    life.settle(3)
    life.apply(DeploymentAsked(1, 2, "the last 20 looks needed no more"))
    life.settle(3)
    assert life.alive == ["d_0", "d_1"]
    assert "2 of 2 replicas ready; because the last 20 looks needed no more" in life.sentences
    life.apply(DeploymentAsked(1, 0))
    life.settle(3)
    assert (life.alive, life.job.state) == ([], State.RUNNING)
    life.apply(DeploymentAsked(1, 1))
    life.settle(3)
    assert life.count_ready() == 1


def test_older_request_that_was_overtaken_changes_nothing():
    life = Life(wanted=1)
    life.apply(DeploymentAsked(3, 2))
    before = life.job
    life.apply(DeploymentAsked(2, 5))
    assert life.job == before


def test_refused_replica_fails_its_generation_and_a_postponed_one_says_what_it_waits_for():
    life = Life(wanted=1)
    life.apply(ChildPostponed("d_0", "compute gpu is away"))
    assert life.job.sentence == "0 of 1 replica ready; a replica waits: compute gpu is away"
    life.apply(ChildRefused("d_0", "there is no model m:1"))
    assert life.job.state is State.FAILED


def test_canceled_deployment_ends_when_all_replicas_have():
    life = Life(wanted=2)
    life.settle(3)
    life.apply(CancelRequested("ada"))
    assert life.job.state is State.STOPPING
    life.settle(2)
    assert (life.job.state, life.alive) == (State.CANCELED, [])


def test_replica_that_is_unwanted_before_it_is_submitted_is_dropped_when_it_is_refused():
    life = Life(wanted=2)
    life.states.clear()
    life.apply(DeploymentAsked(1, 1))
    assert [one.is_leaving for one in life.progress.replicas] == [False, True]
    life.apply(ChildRefused("d_1", "it is wanted no more"))
    assert [one.number for one in life.progress.replicas] == [0]
    assert life.job.state is State.RUNNING


@pytest.mark.parametrize("seed", range(60))
def test_any_order_of_changes_failures_and_looks_ends_with_the_wanted_replicas(seed: int):
    random = Random(seed)
    life = Life(wanted=2, slots=random.choice((3, 4, 100)))
    life.settle(4)
    generation, wanted = 1, 2
    for _ in range(80):
        match random.randrange(8):
            case 0:
                generation += 1
                life.broken = {generation} if random.random() < 0.3 else set()
                life.apply(DeploymentAsked(generation, wanted))
            case 1:
                wanted = random.randrange(4)
                life.apply(DeploymentAsked(generation, wanted))
            case 2 if life.alive:
                job = random.choice(life.alive)
                life.states[job] = random.choice((State.FAILED, State.CANCELED, State.COMPLETED))
                life.ready.discard(job)
            case 3:  # The router has just been started.
                life.apply(ReplicasSeen())
            case 4:
                life.apply(ChildrenSeen())
            case _:
                life.go_on()
        if life.job.state is not State.RUNNING:
            return  # Nothing was ever ready.
    life.broken = set()
    generation += 1
    life.apply(DeploymentAsked(generation, wanted))
    life.settle(500)
    assert life.count_ready(generation) == len(life.alive) == wanted
    assert {replica_name("d", one.number) for one in life.progress.replicas} == set(life.alive)

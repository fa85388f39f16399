"""A thousand schedules of faults hold, and a defect that is planted is found."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from drumbeat.core.lifecycle import ending, state_machine
from drumbeat.core.lifecycle.events import Decision, GangObserved, Placed, PlacementDeferred
from drumbeat.core.lifecycle.job import Job
from drumbeat.core.lifecycle.node_statuses import Mark, NodeStatuses
from drumbeat.core.scheduling import wait_reasons
from drumbeat.core.scheduling.slot_fitting import FreeSlots
from drumbeat.model.agent import Phase
from drumbeat.model.errors import StorageError
from drumbeat.model.states import State
from drumbeat.server.control import Control
from drumbeat.server.database import SqlStore
from drumbeat.server.database.records import Change, Record
from drumbeat.server.jobs import part_tables
from drumbeat.server.loop.loop import Loop
from drumbeat.server.loop.outbox import Outbox
from drumbeat.server.loop.placer import Placer
from drumbeat.server.nodes.agents import Agents
from tests.chaos.points import SIMULATED
from tests.support.memory_store import MemoryStore
from tests.support.simulation.action import Action
from tests.support.simulation.schedules import schedule
from tests.support.simulation.shrink import failure, shrink
from tests.support.simulation.world import Killed, Server, Texts, World

from .seeds import LANES, PATIENT, how_many, near

pytestmark = PATIENT


@pytest.mark.feature("F5", "C3", "C13", "F6")
@pytest.mark.parametrize("lane", range(LANES))
def test_schedules_of_faults_hold(lane: int, pytestconfig: pytest.Config, monkeypatch: pytest.MonkeyPatch):
    if lane % 4 == 0:
        all_jobs_have_rows(monkeypatch)
    for seed in range(lane, how_many(pytestconfig), LANES):
        said = failure(schedule(seed))
        assert not said, f"{said}; see `python -m tests.support.simulation --seed {seed}`"


FOR_POINTS = (0, 4, 5, 15, 113, 213, 230, 238)
"""Seeds whose schedules pass all of those points; after a change of the schedules, the first 400 are looked at."""


def test_simulator_kills_servers_at_every_point_left_to_it(monkeypatch: pytest.MonkeyPatch):
    """tests/chaos kills real processes at the other points."""
    killed: set[str] = set()
    hook = World._hook

    def watched(self: World, server: Server, control: Control) -> Callable[[str], None]:
        passed = hook(self, server, control)

        def watch(point: str) -> None:
            try:
                passed(point)
            except Killed:
                killed.add(point)
                raise

        return watch

    monkeypatch.setattr(World, "_hook", watched)
    for seed in (*FOR_POINTS, *range(400)):
        failure(schedule(seed))
        if killed >= set(SIMULATED):
            return
    assert sorted(killed) == sorted(SIMULATED)


def test_a_seed_is_a_schedule():
    assert schedule(7) == schedule(7) != schedule(8)


# --- planted defects --------------------------------------------------------------------------------------------
def slots_are_never_given_back(patch: pytest.MonkeyPatch) -> None:
    done = SqlStore.done

    def keeps_them(self: SqlStore, effect: int, *, release: object = None, at: object = None) -> None:
        del release, at
        done(self, effect)

    patch.setattr(SqlStore, "done", keeps_them)


def effects_are_done_before_they_are_carried_out(patch: pytest.MonkeyPatch) -> None:
    carry_out = Outbox.carry_out

    def done_first(self: Outbox, pending: object) -> None:
        self._loop.store.done(pending.id)
        carry_out(self, pending)

    patch.setattr(Outbox, "carry_out", done_first)


def nothing_is_written_down(patch: pytest.MonkeyPatch) -> None:
    def commit(self: Loop, name: str, record: Record, change: Change) -> None:
        self.jobs[name] = replace(record, job=change.job)

    patch.setattr(Loop, "_commit", commit)


def old_attempts_are_believed(patch: pytest.MonkeyPatch) -> None:
    decide = state_machine.decide

    def believing(job: Job, event: object, now: object) -> object:
        if hasattr(event, "attempt"):
            event = replace(event, attempt=job.attempt)
        return decide(job, event, now)

    patch.setattr("drumbeat.server.loop.loop.decide", believing)
    for method in ("_current", "_recent"):
        patch.setattr(Agents, method, lambda self, name, _attempt: self._loop.store.load(name).job)


def slots_are_booked_twice(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(FreeSlots, "take", lambda _self, _holding: None)


def nobody_looks_at_the_queue_again(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Loop, "freed", lambda _self: None)


def a_refused_grant_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    place = Loop.place

    def forgetful(self: Loop) -> None:
        try:
            place(self)
        except StorageError:
            self.must_place = False
            raise

    patch.setattr(Loop, "place", forgetful)


def a_new_attempt_counts_as_seen(patch: pytest.MonkeyPatch) -> None:
    decide = state_machine.decide

    def remembering(job: Job, event: object, now: object) -> object:
        decided = decide(job, event, now)
        if isinstance(event, Placed):
            decided = replace(decided, job=replace(decided.job, observed=job.observed))
        return decided

    patch.setattr("drumbeat.server.loop.loop.decide", remembering)


def results_are_not_kept(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ending, "finalize", lambda job, now: ending.end(replace(job, state=State.FINALIZING), now))


def nobody_says_what_a_job_waits_for(patch: pytest.MonkeyPatch) -> None:
    tell = Placer._tell_waits

    def silent(self: Placer, waits: Sequence[tuple[str, PlacementDeferred]]) -> None:
        tell(self, [(job, replace(event, sentence=".")) for job, event in waits])

    patch.setattr(Placer, "_tell_waits", silent)


def who_waits_is_told_what_another_needs(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(wait_reasons, "format_amount", lambda _need: "1 CPU slot")


def who_waits_is_not_told(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Placer, "_tell_waits", lambda _self, _waits: None)


def an_engine_that_is_away_is_not_told_of(patch: pytest.MonkeyPatch) -> None:
    decide = state_machine.decide

    def deaf(job: Job, event: object, now: object) -> object:
        return Decision(job) if isinstance(event, GangObserved) and not event.is_asked else decide(job, event, now)

    patch.setattr("drumbeat.server.loop.loop.decide", deaf)


def kept_stories_are_empty(patch: pytest.MonkeyPatch) -> None:
    write = Texts.write_text
    patch.setattr(Texts, "write_text", lambda self, job, path, _text: write(self, job, path, ""))


def kept_stories_lack_their_ends(patch: pytest.MonkeyPatch) -> None:
    write = Texts.write_text
    patch.setattr(Texts, "write_text", lambda self, *to: write(self, *to[:2], to[2][: to[2][:-1].rfind("\n") + 1]))


def exits_of_an_old_round_are_believed(patch: pytest.MonkeyPatch) -> None:
    def exits(job: Job) -> tuple[object, ...]:
        found = ((node, one) for node, status in enumerate(job.nodes) if status for one in status.exits)
        return tuple(sorted(found, key=lambda pair: (pair[1].at, pair[1].order)))

    of_round = NodeStatuses.count_ranks

    def count(self: NodeStatuses, mark: Mark, _round: int) -> int:
        return sum(of_round(self, mark, number) for number in range(10))

    patch.setattr(NodeStatuses, "count_ranks", count)
    patch.setattr(Job, "exits", property(exits))


def phases_of_an_old_round_are_believed(patch: pytest.MonkeyPatch) -> None:
    def are_all(job: Job, *phases: Phase) -> bool:
        there = (status for node, status in enumerate(job.nodes) if node not in job.lost)
        return all(status is not None and status.phase in phases for status in there)

    patch.setattr(Job, "are_all", are_all)


def parts_of_jobs_are_forgotten(patch: pytest.MonkeyPatch) -> None:
    all_jobs_have_rows(patch)
    patch.setattr(part_tables, "_rewrite_parts", lambda *_: None)


def all_jobs_have_rows(patch: pytest.MonkeyPatch) -> None:
    """Has the parts of each job written to rows of their own, as those of large jobs are, and read by each server."""
    patch.setattr(part_tables, "MAX_WHOLE_NODES", 0)
    patch.setattr(MemoryStore, "remembers_in_common", False)


PLANTED = {
    slots_are_never_given_back: 0, effects_are_done_before_they_are_carried_out: 5, nothing_is_written_down: 0,
    old_attempts_are_believed: 617, slots_are_booked_twice: 0, nobody_looks_at_the_queue_again: 0,
    a_refused_grant_is_forgotten: 32, a_new_attempt_counts_as_seen: 496,
    results_are_not_kept: 0, nobody_says_what_a_job_waits_for: 0, who_waits_is_told_what_another_needs: 0,
    who_waits_is_not_told: 0, an_engine_that_is_away_is_not_told_of: 84, kept_stories_are_empty: 0,
    kept_stories_lack_their_ends: 0, exits_of_an_old_round_are_believed: 220, parts_of_jobs_are_forgotten: 0,
}  # fmt: skip
"""Each with a seed that finds it."""


@pytest.mark.parametrize("plant", PLANTED, ids=lambda plant: plant.__name__)
def test_a_planted_defect_is_found(plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch):
    plant(monkeypatch)
    assert any(failure(schedule(seed)) for seed in near(PLANTED[plant]))


def test_an_agent_that_knows_only_of_the_round_before_ends_no_round(monkeypatch: pytest.MonkeyPatch):
    """The second round of two nodes: the agent of one is killed when it was ready, and is heard before it starts."""
    begins = [Action("submit", 1), Action("place"), Action("effect"), *syncs(0, 1, 0, 1, 0)]
    again = [Action("rank_ends", 0, 5), *syncs(0, 1), Action("grace_ends"), *syncs(1, 0, 0, 1)]
    actions = [*begins, *again, Action("agent_dies"), *syncs(0), Action("rank_ends", 1), *syncs(1)]
    assert not failure(actions)
    with monkeypatch.context() as patch:
        phases_of_an_old_round_are_believed(patch)
        assert failure(actions) == "Violation: j0 finalizes, and not all of its ranks are done"
    exits_of_an_old_round_are_believed(monkeypatch)
    assert failure(actions) == "Violation: ranks [0, 1] of j0 didn't end so in round 2"


def syncs(*nodes: int) -> list[Action]:
    return [Action("sync", node) for node in nodes]


def test_a_failing_schedule_is_shrunk_to_what_matters(monkeypatch: pytest.MonkeyPatch):
    slots_are_never_given_back(monkeypatch)
    actions = next(schedule(seed) for seed in range(50) if failure(schedule(seed)))
    assert len(shrink(actions)) <= 4

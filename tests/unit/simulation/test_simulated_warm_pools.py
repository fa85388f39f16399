"""Real supervisors in the simulator: the next job finds what they prepare, and each of their laws can be broken."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from drumbeat.model import failpoints
from drumbeat.model.supervisor import Adopt, LeaveNode
from drumbeat.node.supervisor import spare_folders
from drumbeat.node.supervisor.machine import SupervisorMachine
from drumbeat.node.supervisor.rank_round import RankRound
from drumbeat.node.supervisor.spare_supervisor import SpareSupervisor
from drumbeat.node.supervisor.supervisor import Supervisor
from drumbeat.node.supervisor.warm_pool import WarmPool
from drumbeat.node.supervisor.warm_worker import WarmWorker
from tests.support.simulation import warm_pools
from tests.support.simulation.action import Action
from tests.support.simulation.backing import MemoryBacking
from tests.support.simulation.invariants import Checker
from tests.support.simulation.schedules import WITH_WARM_POOLS, fair, happen, schedule
from tests.support.simulation.shrink import failure
from tests.support.simulation.supervisors.machine import Box
from tests.support.simulation.world import World

POINTS = ("agent.spare_found", "agent.spare_taken", "agent.spare_dead", "supervisor.retiring", "supervisor.retired")
"""Points that agents and supervisors of warm workers come by."""


def turns(count: int) -> list[Action]:
    return [one for _ in range(count) for one in fair(Action("fair"))]


def talks(count: int) -> list[Action]:
    """As many nodes speak as have room on the machine, and act."""
    syncs = [Action("sync", node) for node in range(6)]
    return [*syncs, *does("turns")] * count


def does(*names: str) -> list[Action]:
    return [Action(name) for name in names]


def job(number: int, kind: int = 0) -> list[Action]:
    """A job runs, and its supervisor has an interpreter for each of its ranks."""
    return [Action("submit_warm", kind, number), *turns(5)]


SHORT = [Action("submit_warm", 0, 0), *turns(2), Action("tick", 0)]
"""A job runs, and its supervisor has seen torch in its ranks, but hasn't begun an interpreter."""
ENDS = [*does("job_ends"), *turns(6)]
SPARE = [*job(0), *ENDS]
"""A job has ended, and its supervisor waits for the next one."""
RETIRES = [*job(0), *does("job_ends"), *turns(3), *does("sync", "agent_acts", "supervisor_acts")]
"""A job has ended, and its supervisor is about to wait for the next one."""


def after(actions: Sequence[Action]) -> tuple[Box, World]:
    """The machine after these actions, each checked."""
    with closing(MemoryBacking()) as backing:
        world = World(1, backing)
        with closing(world):
            checker = Checker(world)
            for action in actions:
                happen(world, action)
                checker.check()
            return world.warm_pools.box, world


def jobs_of_interpreters(box: Box) -> set[tuple[str, str]]:
    """The job that each interpreter was prepared in, and the one that it became a rank of."""
    processes = [one for one in box.processes.values() if one.is_interpreter and one.served]
    return {(one.begun.env["DRUMBEAT_JOB"], one.served[0].job) for one in processes}


@pytest.mark.feature("F3")
def test_interpreters_of_a_simulated_job_become_ranks_of_the_next() -> None:
    box, _ = after([*SPARE, *job(1)])
    assert jobs_of_interpreters(box) == {("w0", "w1")}


@pytest.mark.feature("F3")
def test_interpreters_begun_when_a_short_simulated_job_ends_become_ranks_of_the_next() -> None:
    box, _ = after(SHORT)
    assert [one.is_interpreter for one in box.processes.values()] == [False]
    box, _ = after([*SHORT, *ENDS, *job(1)])
    assert jobs_of_interpreters(box) == {("w0", "w1")}


def test_interpreter_that_still_needs_the_folder_of_its_job_ends_with_the_job() -> None:
    with closing(MemoryBacking()) as backing, closing(World(1, backing)) as world:
        for action in [*SHORT, *does("job_ends", "supervisor_acts", "supervisor_acts")]:
            happen(world, action)
        (process,) = world.warm_pools.box.supervisors.values()
        assert process.supervisor is not None
        pool, now = process.supervisor.round.warm_pool, world.clock.monotonic()
        for one in pool._begun:
            one.has_begun = False
        assert pool.preparing
        assert pool.is_beginning(now)
        assert not pool.is_beginning(now + 60)
        assert not pool.keep()
        assert not world.warm_pools.waiting()


def test_supervisor_looks_at_the_memory_while_only_its_launcher_runs() -> None:
    with closing(MemoryBacking()) as backing:
        world = World(1, backing)
        with closing(world):
            for action in job(0):
                happen(world, action)
            supervisors = [one.supervisor for one in world.warm_pools.box.supervisors.values()]
            supervisor = next(one for one in supervisors if one is not None and one.round.warm_pool.ready)
            supervisor.round.starter.pid = 1
            supervisor.round.running.clear()
            pause_s = supervisor._pause_s()
            assert pause_s is not None
            assert 0 <= pause_s < 10


def test_one_of_two_simulated_jobs_gets_the_interpreters_both_could_use() -> None:
    box, world = after([*SPARE, Action("submit_warm", 0, 1), *job(2)])
    assert jobs_of_interpreters(box) in ({("w0", "w1")}, {("w0", "w2")})
    assert [record.job.state for record in world.look().records.values()].count("running") == 2


def test_simulated_rank_of_a_round_after_a_failure_starts_warm() -> None:
    box, _ = after([*job(0, 1), Action("rank_ends", 0, 5), *turns(6)])
    assert jobs_of_interpreters(box) == {("w0", "w0")}


def test_simulator_strikes_agents_and_supervisors_at_every_point_of_warm_workers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    struck: set[str] = set()
    passed = warm_pools.SupervisorWorld._pass

    def watch(self: warm_pools.SupervisorWorld, actor: Any, point: str) -> None:
        if self.strike and self.strike.points <= 1:
            struck.add(point)
        passed(self, actor, point)

    monkeypatch.setattr(warm_pools.SupervisorWorld, "_pass", watch)
    for points in range(5):
        strike = Action("strike", points)
        taken = [strike, *job(1), *ENDS]
        assert not failure([*job(0), *does("job_ends"), *turns(3), strike, *turns(3), *taken])
        assert not failure([*SPARE, *does("spare_dies"), *taken])
        assert not failure([*SPARE, *taken])
    assert struck >= set(POINTS)
    assert set(POINTS) <= set(failpoints.ELSEWHERE)


# --- planted defects --------------------------------------------------------------------------------------------
def a_spare_supervisor_obeys_its_agent_of_before(patch: pytest.MonkeyPatch) -> None:
    obeyed = Supervisor.obey

    def obey(self: Supervisor, request: Any) -> None:
        if self.spare.is_spare:
            if isinstance(request, Adopt):
                self.round.move(request.folder)
            self.spare.is_spare = False
            if isinstance(request, LeaveNode):
                return
        obeyed(self, request)

    patch.setattr(Supervisor, "obey", obey)


def an_interpreter_that_was_killed_is_no_rank(patch: pytest.MonkeyPatch) -> None:
    def start_warm(self: RankRound, rank: Any) -> int:
        worker = self.warm_pool.take(rank.rank)
        return worker.go(rank) if worker else 0

    patch.setattr(RankRound, "_start_warm", start_warm)


def spare_supervisors_are_counted_only_before_they_are_placed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(spare_folders, "is_surplus", lambda _folder, _machine: False)


def spare_supervisors_wait_without_end(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Supervisor, "_check_agent", lambda _self: None)
    patch.setattr(SpareSupervisor, "look", lambda self: self._round.warm_pool.look_spare())


def spare_supervisors_do_not_look_at_the_memory(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(WarmPool, "look_spare", lambda _self: None)


def supervisors_look_at_the_memory_only_while_ranks_run(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(WarmPool, "look_between", lambda _self, _now: None)


def any_interpreter_will_do(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(WarmWorker, "difference", lambda _self, _rank, _order, _root: "")


def an_interpreter_stays_in_the_pool(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(WarmPool, "take", lambda self, rank: self._ready.get(rank))


def two_agents_take_over_one_supervisor(patch: pytest.MonkeyPatch) -> None:
    def claim(spare_key: str, folder: str, machine: SupervisorMachine) -> bool:
        home = machine.spares_home()
        for path in Path(home).glob(f"{spare_key}-*"):
            Path(folder).rmdir()
            Path(folder).symlink_to(path)
            return True
        return False

    patch.setattr(spare_folders, "claim", claim)
    patch.setattr(SpareSupervisor, "_is_in", lambda _self, _folder: True)


LATE_AGENT = [Action("strike", 0, 2), *does("supervisor_acts", "agent_dies", "agent_acts")]
FAILED = [*job(0, 2), Action("rank_ends", 0, 5), *turns(7), Action("rank_ends", 0, 5), *turns(2)]
PLANTED: dict[Callable[[pytest.MonkeyPatch], None], list[Action]] = {
    a_spare_supervisor_obeys_its_agent_of_before: [*RETIRES, *LATE_AGENT, *job(1), *turns(4)],
    an_interpreter_that_was_killed_is_no_rank: [
        *job(0, 1), Action("rank_ends", 0, 5),
        *does("supervisor_acts", "agent_acts", "sync", "effect", "sync", "agent_acts", "sync", "sync", "agent_acts"),
        *does("interpreter_dies", "supervisor_acts"), *turns(2),
    ],
    spare_supervisors_are_counted_only_before_they_are_placed: [
        *(Action("submit_warm", 3, number) for number in range(3)), *[*talks(1), *turns(1)] * 14,
        *(Action("job_ends", node) for node in (0, 2, 4)), *talks(6), *turns(2),
    ],
    spare_supervisors_wait_without_end: [*SPARE, Action("wait_long", 3), Action("tick", 2)],
    spare_supervisors_do_not_look_at_the_memory: [*SPARE, Action("memory", 2), Action("tick", 1)],
    supervisors_look_at_the_memory_only_while_ranks_run: [*FAILED, Action("memory", 2), *[Action("tick", 1)] * 2],
    any_interpreter_will_do: [*SPARE, *job(1, 10)],
    an_interpreter_stays_in_the_pool: [*job(0, 1), Action("rank_ends", 0, 5), *turns(7)],
    two_agents_take_over_one_supervisor: [*SPARE, Action("submit_warm", 0, 1), *job(2)],
}  # fmt: skip
"""Each with actions that find it, and hold without it."""


@pytest.mark.parametrize("plant", PLANTED, ids=lambda plant: plant.__name__)
def test_a_planted_defect_of_warm_workers_is_found(
    plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not failure(PLANTED[plant])
    plant(monkeypatch)
    assert failure(PLANTED[plant]).startswith("Violation: ")


@pytest.mark.parametrize("servers", [1, 2])
def test_schedules_with_real_supervisors_submit_jobs_that_prepare(servers: int) -> None:
    kinds = {one.what for seed in WITH_WARM_POOLS for one in schedule(seed, servers)}
    assert {"submit_warm", "turns", "prepared", "supervisor_acts", "strike"} <= kinds

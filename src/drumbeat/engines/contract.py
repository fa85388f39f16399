"""The contract of `ports.Engine` as tests, for every engine.

A subclass gives the fixtures `engine` and, where nodes can be lost, `lose(gang, node)`, which makes a node vanish for
good. The agents have no server to call here: no promise of an engine depends on one.
"""

# ruff: noqa: S101 - asserting is what a contract does

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

import pytest

from drumbeat import launchers
from drumbeat.core.scheduling.resource_needs import Slot
from drumbeat.model.errors import UnreachableError
from drumbeat.model.plan import Plan
from drumbeat.ports.engines import Engine, Gang

TIMEOUT_S = 120.0


def a_gang(job: str = "contract", nodes: int = 2, attempt: int = 1) -> Gang:
    """A gang whose agents call an address where no server listens."""
    plan = Plan(job, "exp", "pytorch", nodes, 1, "true", launchers.ranks("pytorch", nodes, 1), grace_s=1.0)
    slots = tuple(Slot(node, "m", 1) for node in range(nodes))
    return Gang(job, attempt, plan, slots, secret="not-to-be-seen", servers=("http://127.0.0.1:9",))  # noqa: S106


def stop(engine: Engine, name: str) -> None:
    """Stops a gang as the server does: again and again while something (a process in the kernel) can't be ended."""
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        try:
            return engine.stop(name)
        except UnreachableError:
            if time.monotonic() > deadline:
                raise
        time.sleep(0.2)


class EngineContract:
    """Subclasses supply the fixtures; pytest collects the tests."""

    @pytest.fixture
    def engine(self) -> Engine:
        """An engine without gangs."""
        raise NotImplementedError

    @pytest.fixture
    def lose(self) -> Callable[[Gang, int], None]:
        """Makes a node vanish for good."""
        raise NotImplementedError

    def test_machines_are_listed_with_their_slots(self, engine: Engine) -> None:
        """They are the same each time."""
        machines = engine.machines()
        assert machines
        assert all(machine.cpus > 0 for machine in machines)
        assert [m.name for m in engine.machines()] == [m.name for m in machines]

    def test_started_gang_is_observed_with_all_nodes(self, engine: Engine) -> None:
        """It has all of its nodes and a status."""
        gang = a_gang()
        try:
            assert engine.start(gang)
            sighting = engine.observe(gang)
            assert sighting.word
            assert sighting.gone == {}
        finally:
            stop(engine, gang.name)

    def test_second_start_of_a_running_gang_changes_nothing(self, engine: Engine) -> None:
        """A gang of that name that runs already is left alone."""
        gang = a_gang()
        try:
            engine.start(gang)
            engine.start(gang)
            assert engine.observe(gang).gone == {}
        finally:
            stop(engine, gang.name)

    def test_stop_of_one_attempt_leaves_the_other(self, engine: Engine) -> None:
        """Stopping one leaves the other."""
        first, second = a_gang(), a_gang(attempt=2)
        try:
            engine.start(first)
            engine.start(second)
            stop(engine, first.name)
            assert engine.observe(second).gone == {}
        finally:
            stop(engine, first.name)
            stop(engine, second.name)

    def test_stop_of_a_deleted_job_leaves_its_successor_of_the_same_name(self, engine: Engine) -> None:
        """Stopping the first one again leaves it."""
        first, second = a_gang(), replace(a_gang(), first_version=3)
        try:
            engine.start(first)
            stop(engine, first.name)
            engine.start(second)
            stop(engine, first.name)
            assert engine.observe(second).gone == {}
        finally:
            stop(engine, second.name)

    def test_stop_of_an_absent_gang_succeeds(self, engine: Engine) -> None:
        """Once, twice, or never started."""
        gang = a_gang()
        stop(engine, "never.1")
        engine.start(gang)
        stop(engine, gang.name)
        stop(engine, gang.name)

    def test_vanished_node_is_reported_with_a_message(self, engine: Engine, lose: Callable[[Gang, int], None]) -> None:
        """Only the lost node is reported, with a message."""
        gang = a_gang(nodes=3)
        try:
            engine.start(gang)
            lose(gang, 1)
            deadline = time.monotonic() + TIMEOUT_S
            while not (gone := engine.observe(gang).gone) and time.monotonic() < deadline:
                time.sleep(0.05)
            assert list(gone) == [1]
            assert gone[1]
        finally:
            stop(engine, gang.name)

    def test_secret_appears_in_no_status_or_repr(self, engine: Engine) -> None:
        """Neither the engine's status nor the gang's repr contains it."""
        gang = replace(a_gang(), secret="s3cr3t-in-no-argument")  # noqa: S106
        try:
            output = engine.start(gang) + engine.observe(gang).word
            secrets = (gang.secret, gang.peer_secret, *(gang.node_secret(node) for node in range(gang.plan.nodes)))
            assert not [one for one in secrets if one in output or one in repr(gang)]
        finally:
            stop(engine, gang.name)

"""What every engine promises: the sentences of `ports.Engine`, as tests.

A subclass gives the fixtures `engine` and, where nodes can be lost, `lose(gang, node)`, which makes a node vanish for
good. Agents find no server here: an engine's promises don't depend on one.
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

PATIENCE_S = 120.0


def a_gang(job: str = "contract", nodes: int = 2, attempt: int = 1) -> Gang:
    """A gang whose agents call a server that isn't there."""
    plan = Plan(job, "exp", "pytorch", nodes, 1, "true", launchers.ranks("pytorch", nodes, 1), grace_s=1.0)
    slots = tuple(Slot(node, "m", 1) for node in range(nodes))
    return Gang(job, attempt, plan, slots, secret="not-to-be-seen", servers=("http://127.0.0.1:9",))  # noqa: S106


def stop(engine: Engine, name: str) -> None:
    """As a server does: what can't be ended yet (a process that the kernel doesn't let go of) is tried again."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            return engine.stop(name)
        except UnreachableError:
            if time.monotonic() > deadline:
                raise
        time.sleep(0.2)


class EngineContract:
    """Subclass it, give the fixtures, and pytest does the rest."""

    @pytest.fixture
    def engine(self) -> Engine:
        """An engine without gangs."""
        raise NotImplementedError

    @pytest.fixture
    def lose(self) -> Callable[[Gang, int], None]:
        """Makes a node vanish for good."""
        raise NotImplementedError

    def test_there_are_machines_with_something_on_them(self, engine: Engine) -> None:
        """The same ones each time."""
        machines = engine.machines()
        assert machines
        assert all(machine.cpus > 0 for machine in machines)
        assert [m.name for m in engine.machines()] == [m.name for m in machines]

    def test_a_gang_that_was_started_is_there(self, engine: Engine) -> None:
        """With all of its nodes, and a word for it."""
        gang = a_gang()
        try:
            assert engine.start(gang)
            sighting = engine.observe(gang)
            assert sighting.word
            assert sighting.gone == {}
        finally:
            stop(engine, gang.name)

    def test_starting_twice_is_starting_once(self, engine: Engine) -> None:
        """A gang of that name that runs already is left alone."""
        gang = a_gang()
        try:
            engine.start(gang)
            engine.start(gang)
            assert engine.observe(gang).gone == {}
        finally:
            stop(engine, gang.name)

    def test_gangs_of_two_attempts_are_two(self, engine: Engine) -> None:
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

    def test_gang_of_a_deleted_jobs_name_is_another_one(self, engine: Engine) -> None:
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

    def test_stopping_what_is_not_there_is_no_error(self, engine: Engine) -> None:
        """Once, twice, or never started."""
        gang = a_gang()
        stop(engine, "never.1")
        engine.start(gang)
        stop(engine, gang.name)
        stop(engine, gang.name)

    def test_a_node_that_vanished_is_named_with_a_sentence(
        self, engine: Engine, lose: Callable[[Gang, int], None]
    ) -> None:
        """Sooner or later, and only that one."""
        gang = a_gang(nodes=3)
        try:
            engine.start(gang)
            lose(gang, 1)
            deadline = time.monotonic() + PATIENCE_S
            while not (gone := engine.observe(gang).gone) and time.monotonic() < deadline:
                time.sleep(0.05)
            assert list(gone) == [1]
            assert gone[1]
        finally:
            stop(engine, gang.name)

    def test_the_secret_is_nowhere_to_be_read(self, engine: Engine) -> None:
        """Not in the engine's word, not in the way a gang prints."""
        gang = replace(a_gang(), secret="s3cr3t-in-no-argument")  # noqa: S106
        try:
            said = engine.start(gang) + engine.observe(gang).word
            secrets = (gang.secret, gang.peer_secret, *(gang.secret_of(node) for node in range(gang.plan.nodes)))
            assert not [one for one in secrets if one in said or one in repr(gang)]
        finally:
            stop(engine, gang.name)

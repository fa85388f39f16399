"""What every store promises about leases: which server may write which job, and how a silent one is replaced."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Protocol

import pytest

from drumbeat.ports import Ownership
from drumbeat.protocol.errors import StaleError
from drumbeat.stores.sql import SqlStore
from tests.support.fake_clock import FakeClock
from tests.support.sample_jobs import ended, started, submission

AN_HOUR_S = 3600.0


class Open(Protocol):
    """Opens a store over the test's data: each is another server's, and all see the same."""

    def __call__(self, monotonic: Callable[[], float] = time.monotonic) -> SqlStore:
        """A store that waits by that clock."""
        ...


class LeaseContract:
    """A subclass gives the fixture `make_store`: an `Open` whose stores need not be closed by it."""

    @pytest.fixture
    def make_store(self) -> Open:
        raise NotImplementedError("the subclass says how its store is opened")

    @pytest.fixture
    def open_store(self, make_store: Open) -> Iterator[Open]:
        opened: list[SqlStore] = []

        def open_store(monotonic: Callable[[], float] = time.monotonic) -> SqlStore:
            opened.append(make_store(monotonic))
            return opened[-1]

        yield open_store
        for one in opened:
            one.close()

    @pytest.fixture
    def store(self, open_store: Open) -> SqlStore:
        return open_store()

    @pytest.fixture
    def token(self, store: SqlStore) -> int:
        return store.lease(Ownership.ALONE)

    def test_tokens_grow_also_after_reopening(self, open_store: Open) -> None:
        first = open_store()
        tokens = [first.lease(Ownership.ALONE), first.lease(Ownership.SHARED)]
        first.close()
        tokens += [open_store().lease(ownership) for ownership in Ownership]
        assert tokens == sorted(set(tokens))

    def test_a_server_that_is_alone_has_everything_unfinished_at_once(self, open_store: Open) -> None:
        old, new = open_store(), open_store()
        replaced = old.lease(Ownership.ALONE)
        record, _ = old.submit(replaced, submission("a"))
        token = new.lease(Ownership.ALONE)
        assert (record.lease, new.load("a").lease) == (replaced, token)
        new.commit(token, [started(new.load("a"))])

    def test_a_replaced_server_is_refused_whatever_it_does(self, open_store: Open) -> None:
        old, new = open_store(), open_store()
        replaced = old.lease(Ownership.ALONE)
        record, _ = old.submit(replaced, submission("a"))
        new.lease(Ownership.ALONE)
        for refused in (
            lambda: old.beat(replaced),
            lambda: old.claim(replaced),
            lambda: old.commit(replaced, [started(record)]),
            lambda: old.commit(replaced, []),
            lambda: old.submit(replaced, submission("b")),
        ):
            with pytest.raises(StaleError):
                refused()
        assert [one.job.name for one in new.unfinished()] == ["a"]
        assert (new.load("a").version, len(new.story("a")), new.outbox()) == (1, 1, [])

    def test_a_job_of_another_live_server_cannot_be_written(self, open_store: Open) -> None:
        one, other = open_store(), open_store()
        holder, token = one.lease(Ownership.ALONE), other.lease(Ownership.SHARED)
        one.submit(holder, submission("a"))
        with pytest.raises(StaleError):
            other.commit(token, [started(other.load("a"))])
        assert other.load("a").lease == holder
        one.beat(holder)
        one.commit(holder, [started(one.load("a"))])

    def test_a_server_that_beats_is_never_replaced(self, open_store: Open) -> None:
        clock = FakeClock()
        one, other = open_store(), open_store(clock.monotonic)
        holder, token = one.lease(Ownership.ALONE), other.lease(Ownership.SHARED)
        one.submit(holder, submission("a"))
        for _ in range(3):
            assert other.claim(token) == []
            clock.advance(AN_HOUR_S)
            one.beat(holder)
        assert other.claim(token) == []
        one.beat(holder)

    def test_a_silent_server_is_watched_before_it_is_replaced(self, open_store: Open) -> None:
        clock = FakeClock()
        one, other = open_store(), open_store(clock.monotonic)
        holder, token = one.lease(Ownership.ALONE), other.lease(Ownership.SHARED)
        for name in ("a", "b", "over"):
            one.submit(holder, submission(name))
        one.commit(holder, [ended(one.load("over"))])
        assert other.claim(token) == []
        clock.advance(AN_HOUR_S)
        assert other.claim(token) == ["a", "b"]
        assert {record.lease for record in other.unfinished()} == {token}
        assert other.claim(token) == []
        with pytest.raises(StaleError):
            one.beat(holder)

    def test_two_servers_never_claim_the_same_job(self, open_store: Open) -> None:
        clock = FakeClock()
        dead, one, other = open_store(), open_store(clock.monotonic), open_store(clock.monotonic)
        dead.submit(dead.lease(Ownership.ALONE), submission("a"))
        tokens = [one.lease(Ownership.SHARED), other.lease(Ownership.SHARED)]
        claimed = [one.claim(tokens[0]), other.claim(tokens[1])]
        clock.advance(AN_HOUR_S)
        one.beat(tokens[0])
        other.beat(tokens[1])
        claimed += [one.claim(tokens[0]), other.claim(tokens[1])]
        assert claimed == [[], [], ["a"], []]

    def test_a_finished_job_with_an_effect_left_goes_with_its_effect(self, open_store: Open) -> None:
        old, new = open_store(), open_store()
        replaced = old.lease(Ownership.ALONE)
        old.submit(replaced, submission("a"))
        old.commit(replaced, [started(old.load("a"))])
        old.commit(replaced, [replace(ended(old.load("a")), release=())])
        token = new.lease(Ownership.ALONE)
        assert new.load("a").lease == token

    def test_a_finished_job_of_a_server_that_is_gone_can_be_written(self, open_store: Open) -> None:
        old, new = open_store(), open_store()
        replaced = old.lease(Ownership.ALONE)
        old.submit(replaced, submission("a"))
        old.commit(replaced, [ended(old.load("a"))])
        token = new.lease(Ownership.ALONE)
        record = new.load("a")
        new.commit(token, [replace(ended(record), job=replace(record.job, tags={"kept": "yes"}))])
        assert new.load("a").job.tags == {"kept": "yes"}

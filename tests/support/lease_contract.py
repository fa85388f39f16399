"""What every store promises about the lease: one server is active, and one that was replaced writes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import pytest

from drumbeat.model.errors import StandbyError
from drumbeat.server.database import LeaseRules, SqlStore
from drumbeat.server.loop.ownership import LEASE_TIMEOUT, LiveServer
from tests.support.fake_clock import FakeClock
from tests.support.sample_jobs import ended, started, submission
from tests.support.store_witness import at_once

LEASE_S = LEASE_TIMEOUT.total_seconds()
ALONE = LeaseRules()


class Open(Protocol):
    """Opens a store over the test's data: each is another server's, and all see the same."""

    def __call__(self, rules: LeaseRules = ALONE) -> SqlStore:
        """Opens a store whose server keeps those rules."""
        ...


class LeaseContract:
    """A subclass gives the fixture `make_store`: an `Open` whose stores need not be closed by it."""

    @pytest.fixture
    def make_store(self) -> Open:
        raise NotImplementedError("the subclass says how its store is opened")

    @pytest.fixture
    def open_store(self, make_store: Open) -> Iterator[Open]:
        opened: list[SqlStore] = []

        def open_store(rules: LeaseRules = ALONE) -> SqlStore:
            opened.append(make_store(rules))
            return opened[-1]

        yield open_store
        for one in opened:
            one.close()

    @pytest.fixture
    def store(self, open_store: Open) -> SqlStore:
        store = open_store()
        assert store.take_lease()
        return store

    @pytest.fixture
    def clock(self) -> FakeClock:
        return FakeClock()

    @pytest.fixture
    def shared(self, clock: FakeClock) -> LeaseRules:
        """The rules of servers that know of each other."""
        return LeaseRules(is_alone=False, now=clock.monotonic)

    def test_one_of_several_servers_is_active_as_long_as_it_renews_its_lease(
        self, open_store: Open, shared: LeaseRules, clock: FakeClock
    ) -> None:
        one, other = open_store(shared), open_store(shared)
        assert (one.take_lease(), other.take_lease()) == (True, False)
        for _ in range(3):
            clock.advance(LEASE_S - 1)
            one.renew_lease()
            assert not other.take_lease()
        clock.advance(LEASE_S)
        assert other.take_lease()
        with pytest.raises(StandbyError):
            one.renew_lease()
        assert not one.take_lease()

    def test_expired_lease_that_no_server_took_is_renewed(
        self, open_store: Open, shared: LeaseRules, clock: FakeClock
    ) -> None:
        one, other = open_store(shared), open_store(shared)
        one.take_lease()
        clock.advance(100 * LEASE_S)
        one.renew_lease()
        assert not other.take_lease()

    def test_of_servers_that_try_at_the_same_moment_one_takes_the_lease(
        self, open_store: Open, shared: LeaseRules, clock: FakeClock
    ) -> None:
        stores = [open_store(shared) for _ in range(4)]
        assert stores[0].take_lease()
        clock.advance(LEASE_S)
        assert at_once(3, lambda n: stores[1 + n].take_lease()).count(True) == 1

    def test_server_that_is_alone_takes_the_lease_at_once(self, open_store: Open) -> None:
        old, new = open_store(), open_store()
        assert (old.take_lease(), new.take_lease()) == (True, True)
        new.require_lease()
        with pytest.raises(StandbyError):
            old.require_lease()

    def test_replaced_server_is_refused_whatever_it_writes(self, open_store: Open) -> None:
        old, new = open_store(), open_store()
        old.take_lease()
        record, _ = old.submit(submission("a"))
        old.submit(submission("over"))
        old.commit([started(old.load("over"))])
        old.commit([ended(old.load("over"))])
        effects = new.outbox()
        new.take_lease()
        for refused in (
            lambda: old.commit([started(record)]),
            lambda: old.commit([]),
            lambda: old.submit(submission("b")),
            lambda: old.done(effects[0].id),
            lambda: old.tried(effects[0].id),
            lambda: old.delete_job("over"),
            old.renew_lease,
        ):
            with pytest.raises(StandbyError):
                refused()
        assert [one.job.name for one in new.unfinished()] == ["a"]
        assert (new.load("a").version, len(new.events("a")), new.outbox()) == (1, 1, effects)
        new.commit([started(new.load("a"))])

    def test_lease_of_a_server_that_has_left_is_free_at_once(self, open_store: Open, shared: LeaseRules) -> None:
        one, other = open_store(shared), open_store(shared)
        one.take_lease()
        one.submit(submission("a"))
        for _ in range(2):
            one.leave()
        with pytest.raises(StandbyError):
            one.commit([started(one.load("a"))])
        assert other.take_lease()

    def test_lease_from_before_the_clock_was_set_back_is_free(self, open_store: Open, clock: FakeClock) -> None:
        one = open_store(LeaseRules(is_alone=False, now=lambda: clock.monotonic() + 3600))
        one.take_lease()
        assert open_store(LeaseRules(is_alone=False, now=clock.monotonic)).take_lease()

    def test_other_servers_are_listed_with_their_addresses(self, open_store: Open, shared: LeaseRules) -> None:
        stores = [open_store(shared) for _ in range(3)]
        for n, one in enumerate(stores):
            one.take_lease(f"unix:/{n}", f"http://h{n}:1")
        urls = {"lab": ("https://10.0.0.1:1", "https://[fd00::1]:1"), "far": ()}
        stores[1].publish_agent_urls(urls)
        tokens = [one.token for one in stores[2].other_servers()]
        assert stores[2].other_servers() == [
            LiveServer(tokens[0], "unix:/1", urls, "http://h1:1"),
            LiveServer(tokens[1], "unix:/0", {}, "http://h0:1", is_active=True),
        ]
        stores[0].leave()
        assert [(one.address, one.is_active) for one in stores[2].other_servers()] == [("unix:/1", False)]

    def test_server_that_is_gone_is_listed_no_more(
        self, open_store: Open, shared: LeaseRules, clock: FakeClock
    ) -> None:
        stores = [open_store(shared) for _ in range(3)]
        for n, one in enumerate(stores):
            one.take_lease(f"unix:/{n}")
        clock.advance(60)
        assert stores[2].other_servers() == []
        assert stores[2].take_lease("unix:/2")
        assert not stores[1].take_lease("unix:/1")
        assert [one.address for one in stores[2].other_servers()] == ["unix:/1"]

"""What every store promises to servers that share it: messages reach the holder, slots are never given away twice."""

from __future__ import annotations

from dataclasses import replace

import pytest

from drumbeat.core.life.events import AgentSaid, CancelRequested
from drumbeat.ports import Head, LiveServer, Ownership
from drumbeat.protocol.errors import ConflictError, NotFoundError, StaleError
from drumbeat.protocol.plan import OutputPlan
from drumbeat.protocol.states import State
from drumbeat.stores.sql import SqlStore
from tests.support.fake_clock import FakeClock
from tests.support.lease_contract import AN_HOUR_S, LeaseContract, Open
from tests.support.sample_jobs import SLOTS, ended, full_job, started, submission
from tests.support.store_witness import at_once

CANCEL = CancelRequested("ada \udcff")


class SharingContract(LeaseContract):
    """Heads, inbox, bookings, and leaving in good order."""

    # --- heads ---
    def test_heads_are_the_unfinished_jobs_in_short(self, store: SqlStore, token: int) -> None:
        for name in ("c", "a", "b"):
            store.submit(token, submission(name))
        store.commit(token, [ended(store.load("a")), started(store.load("b"))])
        assert store.heads() == [Head("c", 1, token, State.QUEUED), Head("b", 2, token, State.PROVISIONING)]

    # --- effects ---
    def test_effects_of_a_server_are_those_of_its_jobs(self, open_store: Open, store: SqlStore, token: int) -> None:
        other = open_store().lease(Ownership.SHARED)
        for name, holder in (("a", token), ("b", other)):
            store.submit(holder, submission(name))
            store.commit(holder, [started(store.load(name))])
        assert [[one.job for one in store.outbox(which)] for which in (token, other, None)] == [
            ["a"],
            ["b"],
            ["a", "b"],
        ]

    # --- inbox ---
    def test_messages_wait_for_the_holder_in_order(self, open_store: Open, store: SqlStore, token: int) -> None:
        other = open_store()
        stranger = other.lease(Ownership.SHARED)
        said = [AgentSaid(2, node, one) for node, one in enumerate(full_job("a").nodes) if one]
        for name in ("a", "b"):
            store.submit(token, submission(name))
        other.post("b", CANCEL)
        other.post("a", said[0])
        other.post("a", CANCEL)
        letters = store.inbox(token)
        assert [(one.job, one.message) for one in letters] == [("b", CANCEL), ("a", said[0]), ("a", CANCEL)]
        assert other.inbox(stranger) == []
        for _ in range(2):
            store.heard(one.id for one in letters[:2])
        assert store.inbox(token) == letters[2:]

    def test_messages_go_with_the_job_to_its_next_holder(self, open_store: Open, store: SqlStore, token: int) -> None:
        store.submit(token, submission("a"))
        store.post("a", CANCEL)
        new = open_store()
        successor = new.lease(Ownership.ALONE)
        assert [one.message for one in new.inbox(successor)] == [CANCEL]
        assert new.inbox(token) == []

    def test_a_job_that_has_ended_hears_nothing_any_more(self, store: SqlStore, token: int) -> None:
        store.submit(token, submission("a"))
        store.post("a", CANCEL)
        store.commit(token, [ended(store.load("a"))])
        store.post("a", CANCEL)
        assert store.inbox(token) == []
        with pytest.raises(NotFoundError, match="nobody"):
            store.post("nobody", CANCEL)

    def test_that_outputs_are_given_up_is_heard_as_long_as_there_are_any(self, store: SqlStore, token: int) -> None:
        discard = CancelRequested("ada", discard=True)
        for name in ("a", "b"):
            store.submit(token, submission(name))
            store.post(name, CANCEL)
            store.post(name, discard)
        over = ended(store.load("a"))
        plan = replace(over.job.plan, outputs=(OutputPlan("model", "uri_folder", "upload", uri="file:///models"),))
        store.commit(token, [replace(over, job=replace(over.job, plan=plan, attempt=1)), ended(store.load("b"))])
        assert [(one.job, one.message) for one in store.inbox(token)] == [("a", discard)]
        store.heard(one.id for one in store.inbox(token))
        for name in ("a", "b"):
            store.post(name, discard)
        assert [(one.job, one.message) for one in store.inbox(token)] == [("a", discard)]

    def test_no_message_stays_behind_however_close_it_came_to_the_end(self, open_store: Open, token: int) -> None:
        stores = [open_store() for _ in range(3)]
        stores[0].submit(token, submission("a"))

        def act(n: int) -> None:
            if n == 0:
                stores[0].commit(token, [ended(stores[0].load("a"))])
            else:
                stores[n % 3].post("a", CANCEL)

        at_once(9, act)
        assert stores[0].inbox(token) == []

    # --- slots ---
    def test_bookings_are_counted_by_compute(self, store: SqlStore, token: int) -> None:
        counts = [(store.booked("local"), store.booked("cluster"))]
        for name, compute in (("a", "local"), ("b", "cluster")):
            store.submit(token, submission(name, compute=compute))
        store.commit(token, [started(store.load("a"))])
        counts.append((store.booked("local"), store.booked("cluster")))
        store.done(store.outbox()[0].id, release=("a", 1))
        store.commit(token, [ended(store.load("a"))])
        counts.append((store.booked("local"), store.booked("cluster")))
        assert counts == [(0, 0), (1, 0), (2, 0)]

    def test_slots_chosen_before_somebody_elses_booking_are_refused(self, store: SqlStore, token: int) -> None:
        for name in ("a", "b"):
            store.submit(token, submission(name))
        seen = store.booked("local")
        store.commit(token, [replace(started(store.load("a")), booked=seen)])
        with pytest.raises(ConflictError):
            store.commit(token, [replace(started(store.load("b")), booked=seen)])
        assert (store.load("b").version, len(store.outbox()), len(store.story("b"))) == (1, 1, 1)
        store.commit(token, [replace(started(store.load("b")), booked=store.booked("local"))])

    @pytest.mark.parametrize("has_history", [False, True])
    def test_of_servers_that_book_at_the_same_moment_one_does(
        self, open_store: Open, token: int, *, has_history: bool
    ) -> None:
        stores = [open_store() for _ in range(3)]
        tokens = [token, *(stores[0].lease(Ownership.SHARED) for _ in range(2))]
        names = [f"job-{n}" for n in range(6)]
        for n, name in enumerate(names):
            stores[0].submit(tokens[n % 3], submission(name))
        if has_history:
            stores[0].submit(token, submission("before"))
            stores[0].commit(token, [started(stores[0].load("before"))])
            stores[0].done(stores[0].outbox()[0].id, release=("before", 1))
        seen = stores[0].booked("local")

        def book(n: int) -> bool:
            store = stores[n % 3]
            try:
                store.commit(tokens[n % 3], [replace(started(store.load(names[n])), booked=seen)])
            except ConflictError:
                return False
            return True

        assert at_once(6, book).count(True) == 1
        assert len(stores[0].reservations("local")) == len(SLOTS)

    # --- leaving ---
    def test_what_a_server_held_that_left_is_claimed_at_once(
        self, open_store: Open, store: SqlStore, token: int
    ) -> None:
        clock = FakeClock()
        other = open_store(clock.monotonic)
        heir = other.lease(Ownership.SHARED)
        store.submit(token, submission("a"))
        for _ in range(2):
            store.leave(token)
        with pytest.raises(StaleError):
            store.beat(token)
        with pytest.raises(StaleError):
            store.commit(token, [started(store.load("a"))])
        assert other.claim(heir) == ["a"]
        clock.advance(AN_HOUR_S)
        assert other.claim(heir) == []
        store.leave(token)
        assert store.live_servers() == []

    def test_servers_that_live_are_found_by_their_addresses(self, open_store: Open) -> None:
        stores = [open_store() for _ in range(3)]
        tokens = [one.lease(Ownership.SHARED, address=f"http://h{n}:1") for n, one in enumerate(stores)]
        stores[0].lease(Ownership.SHARED)
        assert [one.address for one in stores[0].live_servers()] == ["http://h2:1", "http://h1:1", "http://h0:1"]
        stores[1].leave(tokens[1])
        assert [one.token for one in stores[0].live_servers()] == [tokens[2], tokens[0]]
        stores[2].lease(Ownership.ALONE, address="http://h3:1")
        assert [one.address for one in stores[0].live_servers()] == ["http://h3:1"]

    def test_doors_are_shown_by_compute(self, open_store: Open) -> None:
        one, other = open_store(), open_store()
        token = one.lease(Ownership.SHARED, address="http://h:1")
        gone = other.lease(Ownership.ALONE, address="http://h:2")
        doors = {"lab": ("https://10.0.0.1:1", "https://[fd00::1]:1"), "far": ()}
        for token_of in (token, gone):
            other.show_doors(token_of, doors)
        assert one.live_servers() == [LiveServer(gone, "http://h:2", doors)]
        other.show_doors(gone, {})
        assert one.live_servers() == [LiveServer(gone, "http://h:2", {})]

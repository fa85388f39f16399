"""What every database keeps of persons, one test for each promise of `SqlStore`."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from drumbeat.core.fair_share import HALF_LIFE, HeldSlots, PastUse, charged
from drumbeat.core.quotas import Quota, QuotaKind
from drumbeat.ports import ALL_COMPUTES, HALF_LIFE_SETTING, JobFilter, PersonToken
from drumbeat.protocol.errors import ConflictError, NotFoundError
from drumbeat.protocol.principal import Role
from drumbeat.stores.sql import SqlStore
from tests.support.lease_contract import Open
from tests.support.sample_jobs import NOON, SLOTS, started, submission
from tests.support.store_witness import at_once, listed

PERSON, EXPERIMENT = QuotaKind

ADA, BOB = PersonToken("ada", Role.READER, "a" * 64, NOON), PersonToken("bob", Role.OWNER, "b" * 64, NOON)


class PeopleContract:
    """Tokens, the person of a job, quotas, and the use of slots by person."""

    def test_a_token_is_read_by_every_server_by_its_digest(self, open_store: Open, store: SqlStore) -> None:
        store.add_token(BOB)
        store.add_token(ADA)
        other = open_store()
        assert other.tokens() == [ADA, BOB]
        assert (other.token("a" * 64), other.token("c" * 64), other.token("")) == (ADA, None, None)

    def test_a_second_token_of_a_person_is_refused(self, store: SqlStore) -> None:
        store.add_token(ADA)
        with pytest.raises(ConflictError, match="ada has a token already"):
            store.add_token(replace(ADA, digest="c" * 64))
        assert store.tokens() == [ADA]

    def test_a_removed_token_is_gone_and_its_person_may_have_another(self, store: SqlStore) -> None:
        store.add_token(ADA)
        store.remove_token("ada")
        assert (store.tokens(), store.token(ADA.digest)) == ([], None)
        with pytest.raises(NotFoundError, match="ada has no token"):
            store.remove_token("ada")
        store.add_token(ADA)

    def test_jobs_are_listed_by_their_person(self, store: SqlStore, token: int) -> None:
        for name, person in (("a", "ada"), ("b", "bob"), ("c", "ada"), ("d", "")):
            sent = submission(name)
            store.submit(token, replace(sent, job=replace(sent.job, person=person)))
        assert store.load("a").job.person == "ada"
        assert listed(store, JobFilter(person="ada")) == ["c", "a"]
        assert listed(store, JobFilter(person="ada", after="c")) == ["a"]
        assert listed(store, JobFilter(person="")) == ["d"]
        assert listed(store, JobFilter(person="eve")) == []

    # --- quotas ---
    def test_quotas_are_kept_by_kind_and_name(self, open_store: Open, store: SqlStore) -> None:
        of_experiment, of_everyone = Quota(EXPERIMENT, "a/b \u2028", gpus=2), Quota(PERSON, "*", 4, None, 9)
        for quota in (of_everyone, of_experiment, Quota(PERSON, "ada", slots=1), Quota(PERSON, "ada", gpus=0)):
            store.set_quota(quota)
        assert open_store().quotas() == [of_experiment, of_everyone, Quota(PERSON, "ada", gpus=0)]

    def test_quota_without_limits_is_removed(self, store: SqlStore) -> None:
        store.set_quota(Quota(PERSON, "ada", slots=1))
        store.set_quota(Quota(PERSON, "ada"))
        store.set_quota(Quota(PERSON, "bob"))
        assert store.quotas() == []

    def test_grant_that_did_not_see_a_booking_of_another_compute_is_refused(self, store: SqlStore, token: int) -> None:
        for name, compute in (("a", "local"), ("b", "cluster"), ("c", "cluster")):
            store.submit(token, submission(name, compute=compute))
        seen = store.booked(ALL_COMPUTES)
        store.commit(token, [replace(started(store.load("a")), booked_in_all=seen)])
        with pytest.raises(ConflictError):
            store.commit(token, [replace(started(store.load("b")), booked_in_all=seen)])
        assert (store.load("b").version, store.reservations("cluster")) == (1, [])
        store.commit(token, [replace(started(store.load("b")), booked_in_all=store.booked(ALL_COMPUTES))])
        seen = store.booked(ALL_COMPUTES)
        store.done(store.outbox()[0].id, release=("a", 1))
        assert store.booked(ALL_COMPUTES) > seen

    def test_grant_and_submission_that_did_not_see_a_quota_are_refused(self, store: SqlStore, token: int) -> None:
        store.submit(token, submission("a"))
        seen = store.booked(ALL_COMPUTES)
        store.set_quota(Quota(PERSON, "*", slots=0))
        with pytest.raises(ConflictError):
            store.commit(token, [replace(started(store.load("a")), booked_in_all=seen)])
        with pytest.raises(ConflictError):
            store.submit(token, replace(submission("b"), booked_in_all=seen))
        assert store.submitted(submission("b").key) is None
        assert store.submit(token, replace(submission("b"), booked_in_all=store.booked(ALL_COMPUTES)))[1]

    def test_of_submissions_that_saw_the_same_bookings_one_is_written(self, open_store: Open, token: int) -> None:
        stores = [open_store() for _ in range(3)]
        seen = stores[0].booked(ALL_COMPUTES)

        def submit(n: int) -> bool:
            try:
                stores[n % 3].submit(token, replace(submission(f"job-{n}"), booked_in_all=seen))
            except ConflictError:
                return False
            return True

        assert sum(at_once(6, submit)) == 1

    # --- use ---
    def test_slots_that_attempts_hold_are_told_with_person_and_experiment(self, store: SqlStore, token: int) -> None:
        self._start(store, token, "a", "ada")
        cpus, gpus = sum(one.cpus for one in SLOTS), sum(len(one.gpus) for one in SLOTS)
        assert store.held_slots() == [HeldSlots("local", "a", "ada", "default", cpus, gpus, NOON)]

    def test_slots_given_back_are_charged_to_their_person_once(
        self, open_store: Open, store: SqlStore, token: int
    ) -> None:
        self._start(store, token, "a", "ada")
        held, later = store.held_slots(), NOON + timedelta(hours=2)
        effect = store.outbox()[0].id
        for _ in range(2):
            store.done(effect, release=("a", 1), at=later)
        (past,) = open_store().past_use()
        assert past == charged(PastUse("ada", 0.0, NOON), held, later, HALF_LIFE)
        assert store.held_slots() == []

    def test_past_use_of_a_person_decays_and_grows_by_the_half_life_that_is_set(
        self, store: SqlStore, token: int
    ) -> None:
        store.set_setting(HALF_LIFE_SETTING, "3600.0")
        past = PastUse("ada", 0.0, NOON)
        for n, name in enumerate("ab"):
            self._start(store, token, name, "ada")
            later = NOON + timedelta(hours=1 + n)
            past = charged(past, store.held_slots(), later, timedelta(hours=1))
            store.done(store.outbox()[0].id, release=(name, 1), at=later)
        assert store.past_use()[0].amount == pytest.approx(past.amount)
        assert store.past_use()[0].at == past.at

    def _start(self, store: SqlStore, token: int, name: str, person: str) -> None:
        sent = submission(name)
        record, _ = store.submit(token, replace(sent, job=replace(sent.job, person=person)))
        store.commit(token, [replace(started(record), at=NOON)])

"""What every database keeps of users, one test for each promise of `SqlStore`."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from drumbeat.core.scheduling.fair_share import HALF_LIFE, HeldSlots, PastUse, charged
from drumbeat.core.scheduling.quotas import Quota, QuotaKind
from drumbeat.model.errors import ConflictError, NotFoundError
from drumbeat.model.principal import Role
from drumbeat.server.database import SqlStore
from drumbeat.server.jobs.job_filter import JobFilter
from drumbeat.server.sign_in.provider_session import ProviderSession, ProviderUser
from drumbeat.server.users.user_token import HALF_LIFE_SETTING, TokenKind, UserToken
from tests.support.lease_contract import Open
from tests.support.sample_jobs import NOON, SLOTS, started, submission
from tests.support.store_witness import listed

USER, EXPERIMENT = QuotaKind

ADA, BOB = UserToken("ada", Role.READER, "a" * 64, NOON), UserToken("bob", Role.OWNER, "b" * 64, NOON)


class UsersContract:
    """Tokens, the user of a job, quotas, and the use of slots by user."""

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

    def test_a_user_has_several_tokens_from_signing_in_and_one_of_them_is_removed(self, store: SqlStore) -> None:
        login = replace(ADA, digest="c" * 64, kind=TokenKind.LOGIN, label="laptop", session="s1")
        page = replace(login, digest="d" * 64, kind=TokenKind.PAGE, expires_at=NOON + timedelta(days=7))
        for one in (ADA, login, page, BOB):
            store.add_token(one)
        assert store.tokens() == [ADA, login, page, BOB]
        with pytest.raises(NotFoundError, match="ada has no token 999"):
            store.remove_token("ada", "999")
        store.remove_token("ada", page.id)
        assert store.tokens() == [ADA, login, BOB]
        assert (store.remove_session("s1"), store.remove_session("s1")) == (1, 0)
        assert store.tokens() == [ADA, BOB]

    def test_a_role_changes_for_all_tokens_of_a_user_and_for_no_other(self, store: SqlStore) -> None:
        login = replace(ADA, digest="c" * 64, kind=TokenKind.LOGIN)
        for one in (ADA, login, BOB):
            store.add_token(one)
        store.set_role("ada", Role.OWNER)
        assert [(one.user, one.role) for one in store.tokens()] == [
            ("ada", "owner"),
            ("ada", "owner"),
            ("bob", "owner"),
        ]
        with pytest.raises(NotFoundError, match="eve has no token"):
            store.set_role("eve", Role.READER)

    def test_an_expired_token_gives_way_to_a_new_one_and_is_swept(self, store: SqlStore) -> None:
        first = replace(ADA, expires_at=NOON + timedelta(days=1))
        store.add_token(first)
        with pytest.raises(ConflictError):
            store.add_token(replace(ADA, digest="c" * 64, created_at=NOON + timedelta(hours=23)))
        later = replace(
            first, digest="c" * 64, created_at=NOON + timedelta(days=1), expires_at=NOON + timedelta(days=2)
        )
        store.add_token(later)
        store.note_token_use(later.digest, NOON + timedelta(days=1, hours=1))
        assert store.tokens() == [replace(later, used_at=NOON + timedelta(days=1, hours=1))]
        login = replace(later, digest="d" * 64, kind=TokenKind.LOGIN)
        store.add_token(login)
        assert (store.remove_expired_tokens(NOON), store.remove_expired_tokens(NOON + timedelta(days=3))) == (0, 1)
        assert [one.kind for one in store.tokens()] == [TokenKind.TOKEN]

    def test_a_user_of_the_provider_keeps_the_name_and_gives_the_role_to_what_signing_in_made(
        self, open_store: Open, store: SqlStore
    ) -> None:
        page = replace(ADA, digest="c" * 64, kind=TokenKind.PAGE, session="s1")
        for one in (ADA, page):
            store.add_token(one)
        at_provider = ProviderUser("https://idp", "42", "ada", "owner")
        store.put_provider_user(at_provider)
        assert [(one.kind, one.role) for one in store.tokens()] == [("token", "reader"), ("page", "owner")]
        other = open_store()
        assert (other.provider_user("https://idp", "42"), other.provider_user_named("ada")) == (at_provider,) * 2
        assert (other.provider_user("https://other", "42"), other.provider_user_named("bob")) == (None, None)
        store.put_provider_user(replace(at_provider, role=""))
        assert store.provider_user("https://idp", "42") == replace(at_provider, role="")
        store.set_role("ada", Role.READER)
        assert store.provider_user("https://idp", "42") == replace(at_provider, role="reader")
        session = ProviderSession("s1", "https://idp", "42", "sid", b"sealed", False, NOON)
        store.put_provider_session(session)
        later = replace(session, sealed=b"", checked_at=NOON + timedelta(hours=1))
        store.put_provider_session(later)
        store.put_provider_session(replace(session, session="s0"))
        assert [one.session for one in other.provider_sessions()] == ["s0", "s1"]
        assert store.remove_session("s1") == 1
        assert [one.kind for one in store.tokens()] == ["token"]
        store.remove_token("ada")
        assert (store.provider_sessions(), store.provider_user_named("ada"), store.tokens()) == ([], None, [])
        store.put_provider_user(at_provider)
        store.remove_token("ada")
        with pytest.raises(NotFoundError):
            store.remove_token("ada")

    def test_jobs_are_listed_by_their_person(self, store: SqlStore) -> None:
        for name, person in (("a", "ada"), ("b", "bob"), ("c", "ada"), ("d", "")):
            sent = submission(name)
            store.submit(replace(sent, job=replace(sent.job, user=person)))
        assert store.load("a").job.user == "ada"
        assert listed(store, JobFilter(user="ada")) == ["c", "a"]
        assert listed(store, JobFilter(user="ada", after="c")) == ["a"]
        assert listed(store, JobFilter(user="")) == ["d"]
        assert listed(store, JobFilter(user="eve")) == []

    # --- quotas ---
    def test_quotas_are_kept_by_kind_and_name(self, open_store: Open, store: SqlStore) -> None:
        of_experiment, of_everyone = Quota(EXPERIMENT, "a/b \u2028", gpus=2), Quota(USER, "*", 4, None, 9)
        for quota in (of_everyone, of_experiment, Quota(USER, "ada", slots=1), Quota(USER, "ada", gpus=0)):
            store.set_quota(quota)
        assert open_store().quotas() == [of_experiment, of_everyone, Quota(USER, "ada", gpus=0)]

    def test_quota_without_limits_is_removed(self, store: SqlStore) -> None:
        store.set_quota(Quota(USER, "ada", slots=1))
        store.set_quota(Quota(USER, "ada"))
        store.set_quota(Quota(USER, "bob"))
        assert store.quotas() == []

    # --- use ---
    def test_slots_that_attempts_hold_are_told_with_person_and_experiment(self, store: SqlStore) -> None:
        self._start(store, "a", "ada")
        cpus, gpus = sum(one.cpus for one in SLOTS), sum(len(one.gpus) for one in SLOTS)
        assert store.held_slots() == [HeldSlots("local", "a", "ada", "default", cpus, gpus, NOON)]

    def test_slots_are_those_of_now_after_each_change_of_any_job(self, open_store: Open, store: SqlStore) -> None:
        for name in "ba":
            self._start(store, name, "ada")
            assert store.held_slots() == open_store().held_slots()
        before = store.slots_version
        store.done(store.outbox()[0].id, release=("b", 1), at=NOON + timedelta(hours=1))
        (held,) = store.held_slots()
        version, by_attempt = store.held_by_attempt("local")
        assert (held.job, [*by_attempt], version != before) == ("a", [("a", 1)], True)
        assert by_attempt["a", 1].slots == SLOTS

    def test_slots_given_back_are_charged_to_their_person_once(self, open_store: Open, store: SqlStore) -> None:
        self._start(store, "a", "ada")
        held, later = store.held_slots(), NOON + timedelta(hours=2)
        effect = store.outbox()[0].id
        for _ in range(2):
            store.done(effect, release=("a", 1), at=later)
        (past,) = open_store().past_use()
        assert past == charged(PastUse("ada", 0.0, NOON), held, later, HALF_LIFE)
        assert store.held_slots() == []

    def test_past_use_of_a_person_decays_and_grows_by_the_half_life_that_is_set(self, store: SqlStore) -> None:
        store.set_setting(HALF_LIFE_SETTING, "3600.0")
        past = PastUse("ada", 0.0, NOON)
        for n, name in enumerate("ab"):
            self._start(store, name, "ada")
            later = NOON + timedelta(hours=1 + n)
            past = charged(past, store.held_slots(), later, timedelta(hours=1))
            store.done(store.outbox()[0].id, release=(name, 1), at=later)
        assert store.past_use()[0].amount == pytest.approx(past.amount)
        assert store.past_use()[0].at == past.at

    def _start(self, store: SqlStore, name: str, user: str) -> None:
        sent = submission(name)
        record, _ = store.submit(replace(sent, job=replace(sent.job, user=user)))
        store.commit([replace(started(record), at=NOON)])

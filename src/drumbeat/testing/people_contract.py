"""What every store promises of persons: the sentences of `drumbeat.ports.People`, one test each."""
# ruff: noqa: S101 - asserting is what a contract does

from __future__ import annotations

from dataclasses import replace

import pytest

from drumbeat.ports import JobFilter, PersonToken, Store
from drumbeat.protocol.errors import ConflictError, NotFoundError
from drumbeat.protocol.principal import Role
from drumbeat.testing.lease_contract import Open
from drumbeat.testing.sample_jobs import NOON, submission
from drumbeat.testing.store_witness import listed

ADA, BOB = PersonToken("ada", Role.READER, "a" * 64, NOON), PersonToken("bob", Role.OWNER, "b" * 64, NOON)


class PeopleContract:
    """Tokens, and the person of a job."""

    def test_a_token_is_read_by_every_server_by_its_digest(self, open_store: Open, store: Store) -> None:
        store.add_token(BOB)
        store.add_token(ADA)
        other = open_store()
        assert other.tokens() == [ADA, BOB]
        assert (other.token("a" * 64), other.token("c" * 64), other.token("")) == (ADA, None, None)

    def test_a_second_token_of_a_person_is_refused(self, store: Store) -> None:
        store.add_token(ADA)
        with pytest.raises(ConflictError, match="ada has a token already"):
            store.add_token(replace(ADA, digest="c" * 64))
        assert store.tokens() == [ADA]

    def test_a_removed_token_is_gone_and_its_person_may_have_another(self, store: Store) -> None:
        store.add_token(ADA)
        store.remove_token("ada")
        assert (store.tokens(), store.token(ADA.digest)) == ([], None)
        with pytest.raises(NotFoundError, match="ada has no token"):
            store.remove_token("ada")
        store.add_token(ADA)

    def test_jobs_are_listed_by_their_person(self, store: Store, token: int) -> None:
        for name, person in (("a", "ada"), ("b", "bob"), ("c", "ada"), ("d", "")):
            sent = submission(name)
            store.submit(token, replace(sent, job=replace(sent.job, person=person)))
        assert store.load("a").job.person == "ada"
        assert listed(store, JobFilter(person="ada")) == ["c", "a"]
        assert listed(store, JobFilter(person="ada", after="c")) == ["a"]
        assert listed(store, JobFilter(person="")) == ["d"]
        assert listed(store, JobFilter(person="eve")) == []

"""What every store promises: the docstrings of `SqlStore`, one test each.

A test module subclasses `StoreContract` and gives the fixture `make_store`; no store is excepted from anything.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta, timezone

import pytest

from drumbeat.model.errors import ConflictError, NotFoundError, StaleError
from drumbeat.model.states import State
from drumbeat.server.database import SqlStore
from drumbeat.server.database.records import PendingEffect, Reservation
from drumbeat.server.jobs.job_filter import JobFilter
from drumbeat.server.resources.records import Resource
from tests.support.catalog_contract import CatalogContract, asset
from tests.support.lease_contract import LeaseContract, Open
from tests.support.part_contract import PartContract
from tests.support.removal_contract import RemovalContract
from tests.support.sample_jobs import SLOTS, START, STOP, ended, full_job, line, sample_job, started, submission
from tests.support.store_witness import at_once, everything, listed
from tests.support.times_contract import TimesContract
from tests.support.users_contract import UsersContract


class StoreContract(CatalogContract, RemovalContract, UsersContract, TimesContract, PartContract, LeaseContract):
    """Jobs, stories, outbox, reservations; the lease is in a class above."""

    # --- submit ---
    def test_a_submitted_job_is_there_with_its_story_and_what_was_sent(self, store: SqlStore) -> None:
        record, is_new = store.submit(submission("a"))
        assert (is_new, record.version, record.archived) == (True, 1, False)
        assert record.job == sample_job("a")
        assert record.spec == {"command": "python train.py"}
        assert store.load("a") == record
        assert store.events("a") == [line("accepted")]

    def test_the_same_key_gives_the_same_job_and_changes_nothing(self, store: SqlStore) -> None:
        store.submit(submission("a", key="once"))
        store.commit([started(store.load("a"))])
        record, is_new = store.submit(submission("b", key="once"))
        assert (is_new, record) == (False, store.load("a"))
        assert store.submitted("once") == record
        assert store.submitted("never") is None
        assert (record.version, len(store.events("a"))) == (2, 2)
        with pytest.raises(NotFoundError):
            store.load("b")

    def test_a_name_that_is_taken_is_refused_and_its_key_stays_free(self, store: SqlStore) -> None:
        store.submit(submission("a"))
        with pytest.raises(ConflictError):
            store.submit(submission("a", key="other"))
        assert len(store.events("a")) == 1
        assert store.submit(submission("b", key="other"))[1]

    def test_threads_that_submit_one_key_make_one_job(self, open_store: Open) -> None:
        stores = [open_store() for _ in range(3)]
        found = at_once(12, lambda n: stores[n % 3].submit(submission(f"job-{n}", key="once")))
        assert sorted(is_new for _, is_new in found) == [False] * 11 + [True]
        assert {record.job.name for record, _ in found} == {record.job.name for record in stores[0].unfinished()}

    # --- commit ---
    def test_a_commit_writes_all_that_belongs_to_a_change(self, store: SqlStore) -> None:
        record, _ = store.submit(submission("a"))
        change = started(record)
        store.commit([change])
        assert (store.load("a").job, store.load("a").version) == (change.job, 2)
        assert store.load("a").spec == record.spec
        assert store.events("a") == [line("accepted"), line("slots granted")]
        ((only),) = store.outbox()
        assert only == PendingEffect(only.id, "a", 1, 0, START)
        assert store.reservations("local") == [Reservation("local", "a", 1, slot) for slot in SLOTS]

    def test_every_field_of_a_job_comes_back(self, open_store: Open, store: SqlStore) -> None:
        record, _ = store.submit(submission("a"))
        store.commit([replace(started(record), job=full_job("a"), effects=(), reserve=())])
        assert open_store().load("a").job == full_job("a")

    def test_an_instant_comes_back_whatever_zone_it_was_written_in(self, store: SqlStore) -> None:
        record, _ = store.submit(submission("a"))
        there = line("later").at.astimezone(timezone(timedelta(hours=5, minutes=30)))
        store.commit([replace(ended(record), events=(replace(line("later"), at=there),))])
        assert store.events("a")[1].at == there
        assert store.events("a")[1].at.tzinfo is not None

    def test_text_comes_back_whatever_is_in_it(self, store: SqlStore) -> None:
        odd = "NUL \0, half a pair \udcff, \u2028 'quoted\" ü 🥁"
        sent = submission("a", key=odd, experiment=odd)
        job = replace(sent.job, display_name=odd, tags={odd: odd})
        record, _ = store.submit(replace(sent, job=job, spec={odd: odd}, events=(line(odd),)))
        assert (store.load("a"), store.events("a")) == (record, [line(odd)])
        assert (record.job, record.spec) == (job, {odd: odd})
        assert store.submit(sent) == (record, False)
        assert listed(store, JobFilter(experiments=(odd,))) == ["a"]
        store.put_resource(Resource("alias", odd, document={"target": odd}))
        assert [(one.name, one.document["target"]) for one in store.resources("alias")] == [(odd, odd)]

    def test_a_change_from_an_old_version_is_refused(self, store: SqlStore) -> None:
        record, _ = store.submit(submission("a"))
        store.commit([started(record)])
        with pytest.raises(StaleError):
            store.commit([ended(record)])
        assert (store.load("a").version, len(store.events("a")), len(store.reservations("local"))) == (2, 2, 2)

    @pytest.mark.parametrize("is_bad_first", [True, False])
    @pytest.mark.parametrize("bad", ["stale", "unknown", "held twice"])
    def test_a_commit_is_written_whole_or_not_at_all(self, store: SqlStore, bad: str, *, is_bad_first: bool) -> None:
        for name in ("m", "n"):
            store.submit(submission(name))
        store.commit([started(store.load("m"))])
        (effect,) = store.outbox()
        refused = {
            "stale": (ended(replace(store.load("m"), version=1)), StaleError),
            "unknown": (ended(replace(store.load("m"), job=sample_job("z"))), NotFoundError),
            "held twice": (replace(started(store.load("m")), effects=()), ConflictError),
        }
        change, error = refused[bad]
        changes = [replace(started(store.load("n")), done=(effect.id,), release=(1,)), change]
        before = everything(store)
        with pytest.raises(error):
            store.commit(changes[::-1] if is_bad_first else changes)
        assert everything(store) == before

    def test_effects_are_numbered_on_over_the_life_of_a_job(self, store: SqlStore) -> None:
        store.submit(submission("a"))
        store.commit([started(store.load("a"))])
        store.done(store.outbox()[0].id)
        record = store.load("a")
        change = replace(started(record), job=replace(record.job, effects=3), effects=(STOP, replace(STOP, attempt=2)))
        store.commit([replace(change, reserve=())])
        assert [(one.attempt, one.n, one.effect) for one in store.outbox()] == [
            (1, 1, STOP),
            (2, 2, replace(STOP, attempt=2)),
        ]

    def test_a_commit_can_finish_effects_and_swap_slots(self, store: SqlStore) -> None:
        store.submit(submission("a"))
        store.commit([started(store.load("a"))])
        record = store.load("a")
        job = replace(record.job, attempt=2, effects=record.job.effects)
        done = tuple(one.id for one in store.outbox())
        swap = replace(started(record), job=job, effects=(), done=done, release=(1,), reserve=SLOTS[:1])
        store.commit([swap])
        assert store.outbox() == []
        assert store.reservations("local") == [Reservation("local", "a", 2, SLOTS[0])]

    def test_of_many_commits_from_one_version_one_is_written(self, open_store: Open) -> None:
        stores = [open_store() for _ in range(3)]
        record, _ = stores[0].submit(submission("a"))

        def write(n: int) -> bool:
            try:
                stores[n % 3].commit([replace(ended(record), events=(line(f"{n} was first"),))])
            except StaleError:
                return False
            return True

        written = at_once(12, write)
        assert written.count(True) == 1
        assert stores[0].events("a")[1:] == [line(f"{written.index(True)} was first")]

    # --- reading ---
    def test_unfinished_jobs_come_oldest_first(self, store: SqlStore) -> None:
        for name in ("c", "a", "b"):
            store.submit(submission(name))
        store.commit([ended(store.load("a"))])
        assert [record.job.name for record in store.unfinished()] == ["c", "b"]

    def test_what_isnt_there_is_named(self, store: SqlStore) -> None:
        for ask in (
            lambda: store.load("nobody"),
            lambda: store.events("nobody"),
            lambda: store.jobs(JobFilter(after="nobody")),
            lambda: store.archive("nobody", is_archived=True),
        ):
            with pytest.raises(NotFoundError, match="nobody"):
                ask()

    def test_pages_are_newest_first_and_jobs_that_come_in_between_move_nothing(self, store: SqlStore) -> None:
        names = [f"job-{n}" for n in range(7)]
        for name in names:
            store.submit(submission(name))
        seen: list[str] = []
        for n in range(3):
            page = store.jobs(JobFilter(limit=3, after=seen[-1] if seen else None))
            seen += [record.job.name for record in page]
            store.submit(submission(f"late-{n}"))
        assert seen == names[::-1]

    def test_experiments_of_jobs_are_counted_by_name(self, store: SqlStore) -> None:
        assert store.experiments() == []
        for name, experiment in (("a", "two"), ("b", "one"), ("c", "two")):
            store.submit(submission(name, experiment=experiment))
        one, two = store.experiments()
        assert (one.name, one.jobs, two.name, two.jobs) == ("one", 1, "two", 2)
        assert two.latest_at == store.load("c").job.submitted_at
        assert two.first_at == store.load("a").job.submitted_at

    def test_histories_are_stories_without_sentences(self, store: SqlStore) -> None:
        store.submit(submission("a", experiment="x"))
        store.commit([started(store.load("a"))])
        store.submit(submission("b", parent="a"))
        first, second = store.histories()
        assert (first.job, first.experiment, first.user, second.job) == ("a", "x", store.load("a").job.user, "b")
        assert first.events == tuple(replace(one, sentence="") for one in store.events("a"))
        assert [one.job for one in store.histories(("a",))] == ["a", "b"]
        assert [one.job for one in store.histories(("b", "nothing"))] == ["b"]

    def test_histories_since_a_time_are_of_jobs_that_had_not_ended(self, store: SqlStore) -> None:
        for name in ("a", "b"):
            store.submit(submission(name))
        store.commit([ended(store.load("a"))])
        ended_at = store.events("a")[-1].at
        assert [one.job for one in store.histories(since=ended_at)] == ["a", "b"]
        later = ended_at + timedelta(microseconds=1)
        assert [one.job for one in store.histories(since=later)] == ["b"]
        assert store.histories(("a",), later) == []

    def test_lists_are_chosen_by_state_and_experiment(self, store: SqlStore) -> None:
        for name, experiment in (("a", "one"), ("b", "two"), ("c", "two")):
            store.submit(submission(name, experiment=experiment))
        store.commit([ended(store.load("c"))])
        assert listed(store, JobFilter(experiments=("two",))) == ["c", "b"]
        assert listed(store, JobFilter(states=(State.QUEUED, State.RUNNING))) == ["b", "a"]
        assert listed(store, JobFilter(states=(State.COMPLETED,), experiments=("two",))) == ["c"]
        assert listed(store, JobFilter(states=(State.QUEUED,), after="c")) == ["b", "a"]
        assert listed(store, JobFilter(experiments=("three",))) == []
        assert listed(store, JobFilter(experiments=("one", "two"))) == ["c", "b", "a"]

    def test_lists_are_chosen_by_parent(self, store: SqlStore) -> None:
        for name, parent in (("a", ""), ("b", "sweep"), ("c", "sweep"), ("d", "other")):
            store.submit(submission(name, parent=parent))
        assert listed(store, JobFilter(parent="sweep")) == ["c", "b"]
        assert listed(store, JobFilter(parent="sweep", limit=1, after="c")) == ["b"]
        assert listed(store, JobFilter(parent="")) == ["a"]
        assert listed(store, JobFilter(parent="none")) == []
        assert "b" in listed(store, JobFilter(text="B"))
        assert listed(store, JobFilter()) == ["d", "c", "b", "a"]

    def test_jobs_are_counted_by_state(self, store: SqlStore) -> None:
        assert store.count_jobs(JobFilter()) == {}
        for name, parent in (("a", ""), ("b", ""), ("c", "b"), ("d", "")):
            store.submit(submission(name, parent=parent, experiment=f"of {name}"))
        store.commit([ended(store.load("a"))])
        assert store.count_jobs(JobFilter(limit=1)) == {State.QUEUED: 3, State.COMPLETED: 1}
        assert store.count_jobs(JobFilter(parent="")) == {State.QUEUED: 2, State.COMPLETED: 1}
        assert store.count_jobs(JobFilter((State.COMPLETED, State.FAILED))) == {State.COMPLETED: 1}
        assert store.count_jobs(JobFilter(experiments=("of d",))) == {State.QUEUED: 1}
        store.archive("a", is_archived=True)
        assert store.count_jobs(JobFilter()) == {State.QUEUED: 3}
        assert store.count_jobs(JobFilter(is_archived=True)) == {State.COMPLETED: 1}

    def test_parent_stays_when_the_job_changes(self, open_store: Open) -> None:
        store = open_store()
        record, _ = store.submit(submission("a", parent="sweep"))
        store.commit([ended(record)])
        other = open_store()
        assert other.load("a").job.parent == "sweep"
        assert listed(other, JobFilter(parent="sweep", states=(State.COMPLETED,))) == ["a"]

    def test_an_archived_job_is_hidden_until_it_is_shown_again(self, store: SqlStore) -> None:
        for name in ("a", "b"):
            store.submit(submission(name))
        with pytest.raises(ConflictError):
            store.archive("a", is_archived=True)
        store.commit([ended(store.load("a"))])
        for _ in range(2):
            store.archive("a", is_archived=True)
        assert (store.load("a").archived, store.load("a").version) == (True, 3)
        assert listed(store, JobFilter()) == ["b"]
        assert listed(store, JobFilter(is_archived=True)) == ["a"]
        assert listed(store, JobFilter(is_archived=None)) == ["b", "a"]
        store.archive("a", is_archived=False)
        assert listed(store, JobFilter()) == ["b", "a"]

    # --- outbox and slots ---
    def test_effects_come_oldest_first_and_done_twice_is_once(self, store: SqlStore) -> None:
        for name in ("b", "a"):
            store.submit(submission(name))
        store.commit([started(store.load("b")), started(store.load("a"))])
        first, second = store.outbox()
        assert (first.job, second.job) == ("b", "a")
        store.tried(first.id)
        store.tried(first.id)
        assert [one.tries for one in store.outbox()] == [2, 0]
        for _ in range(2):
            store.done(first.id, release=("b", 1))
            store.tried(first.id)
        assert store.outbox() == [second]
        assert {one.job for one in store.reservations("local")} == {"a"}

    def test_a_release_gives_back_one_attempt_only(self, store: SqlStore) -> None:
        store.submit(submission("a"))
        store.commit([started(store.load("a"))])
        again = started(store.load("a"))
        store.commit([replace(again, job=replace(again.job, attempt=2, effects=2), reserve=SLOTS[:1])])
        store.done(store.outbox()[0].id, release=("a", 1))
        assert store.reservations("local") == [Reservation("local", "a", 2, SLOTS[0])]

    def test_slots_are_of_one_compute(self, store: SqlStore) -> None:
        for name, compute in (("a", "local"), ("b", "cluster")):
            store.submit(submission(name, compute=compute))
            store.commit([started(store.load(name))])
        assert {one.job for one in store.reservations("cluster")} == {"b"}
        assert store.reservations("nowhere") == []

    def test_the_first_word_on_a_fact_stays(self, open_store: Open) -> None:
        stores = [open_store() for _ in range(2)]
        said = at_once(2, lambda n: stores[n].agreed("key", str(n)))
        assert said in (["0", "0"], ["1", "1"])
        assert open_store().agreed("key", "another") == said[0]
        assert stores[0].agreed("other", "2") == "2"

    # --- what has been returned from ---
    def test_everything_is_there_after_reopening(self, open_store: Open, store: SqlStore) -> None:
        for name in ("a", "b"):
            store.submit(submission(name))
        store.commit([started(store.load("a")), ended(store.load("b"))])
        store.tried(store.outbox()[0].id)
        store.archive("b", is_archived=True)
        store.put_resource(Resource("compute", "lab", document={"type": "netlab"}))
        store.add_version(asset())
        before = everything(store)
        store.close()
        assert everything(open_store()) == before

    def test_what_one_server_writes_the_other_reads(self, open_store: Open, store: SqlStore) -> None:
        other = open_store()
        store.submit(submission("a"))
        for change in (started, ended):
            store.commit([change(other.load("a"))])
            assert everything(other) == everything(store)
        other.archive("a", is_archived=True)
        assert store.load("a").archived

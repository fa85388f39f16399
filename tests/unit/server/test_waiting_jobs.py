"""The queue as placement sees it: ordered by the recent use of users, and never so that a job is passed for ever."""

import random
from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from drumbeat.core.lifecycle.job import Job
from drumbeat.core.scheduling.fair_share import MAX_AGE
from drumbeat.core.scheduling.queued_job import QueuedJob
from drumbeat.core.scheduling.quotas import Quota, QuotaKind
from drumbeat.core.scheduling.resource_needs import JobPolicy
from drumbeat.server.loop.waiting_jobs import WaitingJobs, queue_of, queued_job
from drumbeat.server.users.user_token import HALF_LIFE_SETTING
from tests.support.memory_store import MemoryStore
from tests.support.sample_jobs import NOON, sample_job, started, submission

pytestmark = pytest.mark.feature("C9")


def job(name: str, user: str, at: datetime) -> Job:
    return replace(sample_job(name), user=user, submitted_at=at)


@pytest.fixture
def store() -> MemoryStore:
    """Ada has held four slots and four GPUs for an hour."""
    store = MemoryStore()
    sent = submission("hog")
    record, _ = store.submit(replace(sent, job=replace(sent.job, user="ada")))
    store.commit([replace(started(record), at=NOON - timedelta(hours=1))])
    return store


def order(store: MemoryStore, now: datetime, *jobs: Job) -> list[str]:
    return [one.job for one in queue_of(jobs, store, now).jobs]


def test_person_who_has_used_less_is_served_first(store: MemoryStore) -> None:
    later = NOON - timedelta(minutes=1)
    jobs = job("adas", "ada", NOON - timedelta(hours=1)), job("bobs", "bob", later)
    assert order(store, NOON, *jobs) == ["bobs", "adas"]
    use = queue_of(jobs, store, NOON).balances.use
    assert use["ada"] == pytest.approx(4 + 8 * 4, rel=0.01)


def test_jobs_of_one_user_keep_their_order_without_reads(store: MemoryStore) -> None:
    queue = queue_of([job("second", "ada", NOON), job("first", "ada", NOON - timedelta(hours=9))], store, NOON)
    assert [one.job for one in queue.jobs] == ["first", "second"]
    assert queue.balances.use == {}


def test_job_that_has_waited_for_a_day_is_passed_by_no_newcomer(store: MemoryStore) -> None:
    waits_since = NOON - MAX_AGE
    newcomers = [job(f"new-{n}", f"person-{n}", waits_since + timedelta(seconds=n + 1)) for n in range(20)]
    assert order(store, NOON - timedelta(seconds=1), job("adas", "ada", waits_since), *newcomers)[-1] == "adas"
    assert order(store, NOON, job("adas", "ada", waits_since), *newcomers)[0] == "adas"


def test_half_life_that_is_set_decides_how_much_counts(store: MemoryStore) -> None:
    store.set_setting(HALF_LIFE_SETTING, "60.0")
    jobs = job("adas", "ada", NOON), job("bobs", "bob", NOON)
    assert queue_of(jobs, store, NOON).balances.use["ada"] == pytest.approx(36 / 60 / 0.6931, rel=0.01)


def test_quotas_are_read_also_for_a_single_user(store: MemoryStore) -> None:
    store.set_quota(Quota(QuotaKind.USER, "ada", slots=4))
    allowances = queue_of([job("adas", "ada", NOON)], store, NOON).balances.allowances
    assert [one.job for one in allowances.held] == ["hog"]


def test_order_of_jobs_that_come_and_go_is_that_of_their_ranks() -> None:
    rng = random.Random(1)
    jobs = [
        replace(
            job(f"j{n}", rng.choice("abc"), NOON - rng.choice((timedelta(minutes=n % 7), MAX_AGE))),
            policy=JobPolicy(priority=rng.choice((0, 5))),
        )
        for n in range(60)
    ]
    queued, waiting, use = [queued_job(one) for one in jobs], WaitingJobs(), {"a": 1.0, "b": 2.0, "c": 1.0}
    for one in queued:
        waiting.add(one)
    for one in queued[::3]:
        waiting.remove(one)
    left = [one for at, one in enumerate(queued) if at % 3]

    def rank(one: QueuedJob) -> tuple[object, ...]:
        return one.rank(use[one.payer.user] if one.submitted_at > NOON - MAX_AGE else 0.0)

    assert waiting.in_order(use, NOON) == sorted(left, key=rank)
    for one in left:
        waiting.remove(one)
    assert (bool(waiting), waiting.users) == (False, 0)

"""The queue as placement sees it: ordered by the recent use of persons, and never so that a job is passed for ever."""

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from drumbeat.core.lifecycle.job import Job
from drumbeat.core.scheduling.fair_share import MAX_AGE
from drumbeat.core.scheduling.quotas import Quota, QuotaKind
from drumbeat.server.loop.waiting_jobs import queue_of
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

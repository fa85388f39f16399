"""What a test can see of a store, whole, and many threads that use it at the same moment."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import TypeVar

from drumbeat.server.database import SqlStore
from drumbeat.server.jobs.job_filter import JobFilter

T = TypeVar("T")


def listed(store: SqlStore, chosen: JobFilter) -> list[str]:
    """The names on a page."""
    return [record.job.name for record in store.jobs(chosen)]


def everything(store: SqlStore) -> tuple[object, ...]:
    """All that a store can be asked for, to compare before and after."""
    records = store.jobs(JobFilter(is_archived=None, limit=1000))
    stories = {record.job.name: store.events(record.job.name) for record in records}
    held = set(itertools.chain.from_iterable(store.reservations(one) for one in ("local", "cluster")))
    resources = [store.resources(kind) for kind in ("data", "environment", "component", "datastore", "compute")]
    return records, store.unfinished(), stories, store.outbox(), held, resources


def at_once(count: int, call: Callable[[int], T]) -> list[T]:
    """What `call(0)` to `call(count - 1)` give when that many threads call at the same moment."""
    ready = Barrier(count)

    def run(n: int) -> T:
        ready.wait()
        return call(n)

    with ThreadPoolExecutor(count) as threads:
        return list(threads.map(run, range(count)))

"""What a store keeps of the time of jobs: what attempts held, booked times and their sums, capacities."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from drumbeat.core.use_times import DAY_US, PARTS, Amounts, Hold, TimeRow, Window, add_row, to_us
from drumbeat.model.api.ledger import LedgerGroup
from drumbeat.server.computes.usage_tables import Capacity
from drumbeat.server.database import SqlStore
from drumbeat.server.database.records import BookedTimes
from tests.support.sample_jobs import NOON, SLOTS, ended, started, submission

Open = Callable[[], SqlStore]
DAY = to_us(NOON) // DAY_US * DAY_US
HOUR = 3_600_000_000


def a_row(attempt: int, since_h: float, until_h: float, **lengths_h: float) -> TimeRow:
    """A row of the time of a job, from hours of the sample day."""
    places = {"queue": 0, "stage": 2, "train": 5, "lost": 7, "after": 9}
    lengths = [0] * PARTS
    for name, length in lengths_h.items():
        lengths[places[name]] = int(length * HOUR)
    size = (4, 2) if attempt else (0, 0)
    return TimeRow(attempt, DAY + int(since_h * HOUR), DAY + int(until_h * HOUR), *size, tuple(lengths))


ROWS = {
    "a": (a_row(0, 0, 1, queue=1), a_row(1, 1, 3, stage=0.5, train=1.5)),
    "b": (a_row(0, 2, 2.5, queue=0.5), a_row(1, 2.5, 9, train=4, lost=2, after=0.5), a_row(2, 24, 25, train=1)),
}
WINDOWS = (
    Window(DAY, DAY + 48 * HOUR, DAY, 48 * HOUR),
    Window(DAY, DAY + 48 * HOUR, DAY, HOUR),
    Window(DAY + HOUR // 2, DAY + 26 * HOUR, DAY, 24 * HOUR),
    Window(DAY - 50 * HOUR, DAY + 24 * HOUR + HOUR // 2, DAY - 72 * HOUR, 24 * HOUR),
    Window(DAY - 50 * HOUR, DAY + 24 * HOUR + HOUR // 2, DAY - 50 * HOUR, 999 * HOUR),
    Window(DAY + 3 * HOUR + 1, DAY + 3 * HOUR + 1_000, DAY, HOUR),
    Window(DAY - 90 * HOUR, DAY - HOUR, DAY - 96 * HOUR, 24 * HOUR),
)


class TimesContract:
    """A part of `StoreContract`."""

    def _start_and_end(self, store: SqlStore, name: str, user: str = "ada", experiment: str = "default") -> None:
        sent = submission(name, experiment=experiment)
        record, _ = store.submit(replace(sent, job=replace(sent.job, user=user)))
        store.commit([replace(started(record), at=NOON)])
        store.commit([replace(ended(store.load(name)), release=())])

    def test_what_an_attempt_held_stays_known_when_it_gives_it_back(self, open_store: Open, store: SqlStore) -> None:
        self._start_and_end(store, "a")
        size = sum(one.cpus for one in SLOTS), sum(len(one.gpus) for one in SLOTS)
        assert store.holds(["a", "none"]) == {"a": [Hold(1, *size, NOON)]}
        assert store.slot_holders() == {"a"}
        later = NOON + timedelta(hours=2)
        for effect in store.outbox() * 2:
            store.done(effect.id, release=("a", 1), at=later)
        assert open_store().holds(["a"]) == {"a": [Hold(1, *size, NOON, later)]}
        assert store.slot_holders() == set()

    def _booked(self, store: SqlStore) -> None:
        for name, user, experiment in (("a", "ada", "eins"), ("b", "bob", "zwei")):
            self._start_and_end(store, name, user, experiment)
            for effect in store.outbox():
                store.done(effect.id, release=(name, 1), at=NOON)
        for _ in range(2):
            store.book_times([BookedTimes(name, "lab", rows, 0.5) for name, rows in ROWS.items()])

    @pytest.mark.parametrize("span", WINDOWS)
    @pytest.mark.parametrize("by", LedgerGroup)
    def test_sums_of_booked_time_are_those_of_its_rows(self, store: SqlStore, by: LedgerGroup, span: Window) -> None:
        self._booked(store)
        names = {
            LedgerGroup.JOB: {"a": "a", "b": "b"},
            LedgerGroup.EXPERIMENT: {"a": "eins", "b": "zwei"},
            LedgerGroup.USER: {"a": "ada", "b": "bob"},
            LedgerGroup.COMPUTE: {"a": "lab", "b": "lab"},
        }.get(by, {"a": "", "b": ""})
        expected: dict[tuple[str, str, int], Amounts] = {}
        for name, rows in ROWS.items():
            for row in rows:
                for bucket, since, until in span.cuts(row.since, row.until):
                    add_row(expected.setdefault((names[name], "lab", bucket), Amounts()), row, 0.5, since, until)
        sums, shared = store.booked_sums(span, by)
        for one in shared:
            for bucket, since, until in span.cuts(one.row.since, one.row.until):
                add_row(sums.setdefault((one.name, one.compute, bucket), Amounts()), one.row, one.busy, since, until)
        assert sums == expected

    def test_of_many_jobs_those_that_held_the_most_are_chosen(self, store: SqlStore) -> None:
        self._booked(store)
        sums, shared = store.booked_sums(WINDOWS[0], LedgerGroup.JOB, largest=1)
        assert {name for name, _, _ in sums} == {"b"}
        assert shared == []
        assert {one.name for one in store.most_unused(WINDOWS[0], "lab", 1)} == {"b"}
        assert store.most_unused(WINDOWS[0], "other", 9) == []

    @pytest.mark.parametrize("span", WINDOWS)
    def test_sums_of_one_compute_are_those_of_its_jobs(self, store: SqlStore, span: Window) -> None:
        self._booked(store)
        assert store.booked_sums(span, LedgerGroup.USER, "lab") == store.booked_sums(span, LedgerGroup.USER)
        assert store.booked_sums(span, LedgerGroup.USER, "other") == ({}, [])

    def test_a_job_that_is_booked_otherwise_leaves_nothing_of_its_first_sums(self, store: SqlStore) -> None:
        self._booked(store)
        store.book_times([BookedTimes("b", "other", ROWS["a"], 0.25)])
        for by in LedgerGroup:
            sums, shared = store.booked_sums(WINDOWS[0], by)
            assert (sum(one.slot_us for one in sums.values()), shared) == (2 * 4 * 2 * HOUR, [])
            assert sum(one.busy_gpus for one in sums.values()) == 2 * 1.5 * HOUR * 0.75
            assert {compute for _, compute, _ in sums} == {"lab", "other"}

    def test_jobs_with_booked_time_are_counted_once(self, store: SqlStore) -> None:
        self._booked(store)
        assert store.booked_jobs(WINDOWS[0], LedgerGroup.USER) == ({"ada": 1, "bob": 1}, 2)
        assert store.booked_jobs(WINDOWS[0], LedgerGroup.COMPUTE) == ({"lab": 2}, 2)
        assert store.booked_jobs(WINDOWS[2], LedgerGroup.DAY) == ({"0": 2, "1": 1}, 2)
        assert store.booked_jobs(WINDOWS[-1], LedgerGroup.DAY) == ({}, 0)
        assert sorted(store.booked_waits(WINDOWS[0], "lab")) == [HOUR // 2, HOUR]
        assert store.booked_waits(WINDOWS[0], "other") == []

    def test_booked_time_stays_when_its_job_is_deleted_and_its_name_is_used_again(self, store: SqlStore) -> None:
        self._booked(store)
        assert store.unbooked_jobs() == []
        store.delete_job("a")
        store.removed("a", store.load("b").version + 99)
        before = store.booked_sums(WINDOWS[0], LedgerGroup.JOB)[0]
        assert {name for name, _, _ in before} == {"a", "b"}
        store.book_times([BookedTimes("a", "lab", ROWS["a"])])
        assert store.booked_sums(WINDOWS[0], LedgerGroup.JOB)[0] == before
        store.submit(submission("c"))
        assert store.unbooked_jobs() == ["c"]

    def test_a_job_without_time_is_booked_as_well(self, store: SqlStore) -> None:
        self._start_and_end(store, "a")
        store.book_times([BookedTimes("a", "lab", ())])
        assert store.unbooked_jobs() == []
        ever = Window(0, 1 << 62, 0, 1 << 62)
        assert [store.booked_jobs(ever, by) for by in LedgerGroup] == [({}, 0)] * len(LedgerGroup)
        assert [store.booked_sums(ever, by) for by in LedgerGroup] == [({}, [])] * len(LedgerGroup)

    def test_capacities_come_back_in_their_order(self, open_store: Open, store: SqlStore) -> None:
        for slots in (8, 4, 8):
            store.note_capacity("lab", NOON, slots, 2)
        assert open_store().capacities() == [Capacity("lab", NOON, slots, 2) for slots in (8, 4, 8)]

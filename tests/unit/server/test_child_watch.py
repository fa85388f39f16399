"""The watch over the children of sweeps and pipelines."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from drumbeat.core.lifecycle.job import Job
from drumbeat.model.api.requests import JobRequest
from drumbeat.model.metrics import Point
from drumbeat.server.jobs.child_watch import ChildWatch
from drumbeat.server.metrics.metric_records import HistoryPage
from drumbeat.server.sweeps.cpu_use import BusyShares
from drumbeat.server.sweeps.trial_reports import SweepReports

from .house import House, until

SWEEP: dict[str, object] = {
    "type": "sweep",
    "sampling_algorithm": "grid",
    "search_space": {"lr": {"type": "choice", "values": [0.1, 0.2]}},
    "objective": {"goal": "maximize", "primary_metric": "accuracy"},
    "limits": {"max_total_trials": 2, "max_concurrent_trials": 1},
    "trial": {"command": "python t.py --lr ${{search_space.lr}}"},
}


class Readings:
    """Reads nothing of any trial, and records what it is asked to keep."""

    def __init__(self) -> None:
        self.kept: set[str] = set()

    def __call__(self, _job: Job) -> Mapping[int, float]:
        return {}

    def forget_all_but(self, sweeps: Collection[str]) -> None:
        self.kept = set(sweeps)


class Reports(Readings):
    def __call__(self, _job: Job, _ended: Collection[str] = ()) -> Mapping[int, list[float]]:
        return {}

    def runs(self, _job: Job) -> Mapping[int, str]:
        return {}


def submit_sweep(house: House, name: str) -> None:
    house.control.jobs.submit(JobRequest({**SWEEP, "name": name}))
    until(lambda: f"{name}_0" in house.control.loop.jobs)


def make_watch(house: House) -> tuple[ChildWatch, Reports]:
    reports = Reports()
    return ChildWatch(house.control.loop, reports, Readings()), reports


def test_change_of_a_trial_concerns_its_sweep_only(house: House) -> None:
    submit_sweep(house, "a")
    submit_sweep(house, "b")
    watch, _ = make_watch(house)
    assert [job.name for job in watch.parents_above(["b_0"])] == ["b"]
    assert [job.name for job in watch.parents_above(["a"])] == ["a"]


def test_change_of_a_job_that_is_not_held_concerns_every_parent(house: House) -> None:
    submit_sweep(house, "a")
    submit_sweep(house, "b")
    watch, _ = make_watch(house)
    assert {job.name for job in watch.parents_above(["a_7"])} == {"a", "b"}


def test_readings_of_unfinished_sweeps_are_kept_and_others_dropped(house: House) -> None:
    submit_sweep(house, "a")
    watch, reports = make_watch(house)
    watch.forget_ended()
    assert reports.kept == {"a"}


def test_reports_of_a_dropped_sweep_are_read_again_from_the_start(house: House) -> None:
    submit_sweep(house, "a")
    until(lambda: bool(house.store.load("a").job.sweep.trials[0].state))  # pyright: ignore[reportOptionalMemberAccess]
    sweep = house.store.load("a").job
    asked: list[int] = []

    def history(_run: str, metric: str, _rank: int, after: int) -> HistoryPage:
        asked.append(after)
        return HistoryPage((Point(metric, 0.5, 0, 0),), after + 1, is_last=True)

    reports = SweepReports(history)
    assert [*reports(sweep)[0]] == [0.5]
    assert [*reports(sweep)[0]] == [0.5, 0.5]
    reports.forget_all_but(["a"])
    assert [*reports(sweep)[0]] == [0.5, 0.5, 0.5]
    reports.forget_all_but([])
    assert [*reports(sweep)[0]] == [0.5]
    assert asked == [0, 1, 2, 0]


def test_reports_of_a_deleted_sweep_are_not_those_of_the_next_of_its_name(house: House) -> None:
    submit_sweep(house, "a")
    until(lambda: bool(house.store.load("a").job.sweep.trials[0].state))  # pyright: ignore[reportOptionalMemberAccess]
    sweep = house.store.load("a").job
    reports = SweepReports(lambda _run, name, _rank, after: HistoryPage((Point(name, 0.5, 0, 0),), after + 1, True))
    assert [*reports(sweep)[0]] == [0.5]
    assert [*reports(replace(sweep, first_version=9))[0]] == [0.5]


def test_busy_shares_of_a_dropped_sweep_are_no_longer_held(house: House) -> None:
    submit_sweep(house, "a")
    shares = BusyShares(lambda *_: HistoryPage((), 0, is_last=True))
    assert shares(house.store.load("a").job) == {}
    shares.forget_all_but([])
    assert shares(house.store.load("a").job) == {}


def test_only_an_ended_trial_without_a_value_of_its_own_counts_with_those_of_a_run_beside_it(house: House) -> None:
    submit_sweep(house, "a")
    until(lambda: bool(house.store.load("a").job.sweep.trials[0].state))  # pyright: ignore[reportOptionalMemberAccess]
    sweep = house.store.load("a").job
    own = HistoryPage((), 0, is_last=True)
    reports = SweepReports(lambda *_: own, lambda job, metric: (f"fold of {job}", [0.5]) if metric else ("", []))
    assert (reports(sweep), reports.runs(sweep)) == ({0: []}, {})
    assert (reports(sweep, {"a_0"}), reports.runs(sweep)) == ({0: [0.5]}, {0: "fold of a_0"})
    assert reports(sweep, {"a_0"}) == {0: [0.5]}

"""What `SqlMetricStore` promises of records, curves and runs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from drumbeat.model.errors import ConflictError, NotFoundError
from drumbeat.model.metric_lines import Spooled
from drumbeat.model.metrics import (
    InputsLogged,
    MetricRecord,
    OutputsLogged,
    ParamsLogged,
    Point,
    PointsLogged,
    RunCreated,
    RunDeleted,
    RunRestored,
    RunUpdated,
    Source,
    TagDeleted,
    TagsSet,
    experiment_id,
    node_rank,
    run_id,
)
from drumbeat.model.mlflow_writes import MAX_METRICS_IN_BATCH
from drumbeat.server.metrics.metric_records import RefusedParam, RunSearch
from drumbeat.server.metrics.tables import SqlMetricStore

RUN = run_id("calm-fox")
NESTED = "0123456789abcdef" * 2
SOURCE = Source("calm-fox", 1, 0)


def created(job: str = "calm-fox", experiment: str = "digits", start_ms: int = 1000) -> RunCreated:
    """The creation of a job's run."""
    return RunCreated(run_id(job), experiment_id(experiment), job, start_ms, "ada", job, {"team": "vision"})


def logged(*values: float, name: str = "loss", rank: int = 0, run: str = RUN, first: int = 0) -> PointsLogged:
    """One point for each value, at steps counted from `first`."""
    points = tuple(Point(name, value, step, 1000 * step) for step, value in enumerate(values, first))
    return PointsLogged(run, rank, points)


def spool(*records: MetricRecord, offset: int = 0) -> list[Spooled]:
    """The records with ends as if each line had ten bytes."""
    return [Spooled(offset + 10 * n, record) for n, record in enumerate(records, 1)]


def values_of(points: Sequence[Point]) -> list[float]:
    """The values of points."""
    return [point.value for point in points]


class MetricRecordsContract:
    """Records, series, curves. Subclasses give `make_store`, which opens the same database each time."""

    @pytest.fixture
    def store(self, make_store: Callable[[], SqlMetricStore]) -> SqlMetricStore:
        return make_store()

    def test_records_of_a_spool_are_kept_once_however_often_they_are_sent(self, store: SqlMetricStore) -> None:
        records = spool(logged(3, 2), logged(1, first=2), TagsSet(RUN, {"a": "b"}))
        assert store.take(SOURCE, 0, records[:2]).offset == 20
        assert store.take(SOURCE, 0, records[:2]).offset == 20
        assert store.take(SOURCE, 10, records[1:]).offset == 30
        assert store.taken(SOURCE) == 30
        assert values_of(store.history(RUN, "loss", 0).points) == [3, 2, 1]

    def test_points_that_are_written_again_are_kept_once(self, store: SqlMetricStore) -> None:
        odd = Point("loss", math.nan, 7, 9)
        for _ in range(2):
            store.write([logged(3, 2), logged(2, first=1), PointsLogged(RUN, 0, (odd,)), logged(1, name="acc")])
        store.write([logged(2, 1, first=1), logged(3, rank=1)])
        values = values_of(store.history(RUN, "loss", 0).points)
        assert [f"{value:g}" for value in values] == ["3", "2", "nan", "1"]
        assert [(one.name, one.rank, one.count) for one in store.series(RUN)] == [
            ("loss", 0, 4), ("acc", 0, 1), ("loss", 1, 1),
        ]  # fmt: skip

    def test_points_that_differ_in_one_of_value_step_and_time_are_all_kept(self, store: SqlMetricStore) -> None:
        for point in (Point("a", 1, 2, 3), Point("a", 0, 2, 3), Point("a", 1, 0, 3), Point("a", 1, 2, 0)):
            store.write([PointsLogged(RUN, 0, (point,))])
        assert store.series(RUN)[0].count == 4

    def test_a_batch_that_is_sent_again_behind_another_adds_nothing(self, store: SqlMetricStore) -> None:
        batch, other = logged(*range(MAX_METRICS_IN_BATCH)), logged(*range(MAX_METRICS_IN_BATCH), first=5000)
        for records in (batch, other, batch):
            store.write([records])
        assert store.series(RUN)[0].count == 2 * MAX_METRICS_IN_BATCH

    def test_records_behind_a_gap_are_not_taken(self, store: SqlMetricStore) -> None:
        assert store.take(SOURCE, 10, spool(logged(1), offset=10)).offset == 0
        assert store.series(RUN) == []

    def test_sources_are_counted_apart(self, store: SqlMetricStore) -> None:
        for source in (SOURCE, SOURCE._replace(node=1), SOURCE._replace(attempt=2)):
            assert store.taken(source) == 0
            assert store.take(source, 0, spool(logged(1))).offset == 10
        assert store.series(RUN)[0].count == 3

    def test_a_source_without_records_has_nothing_taken(self, store: SqlMetricStore) -> None:
        assert store.take(SOURCE, 0, []).offset == 0
        assert store.taken(SOURCE) == 0

    def test_what_was_written_is_there_after_the_store_is_opened_again(
        self, make_store: Callable[[], SqlMetricStore]
    ) -> None:
        make_store().take(SOURCE, 0, spool(created(), logged(1)))
        store = make_store()
        assert store.taken(SOURCE) == 20
        assert store.run(RUN).metrics[0].last == Point("loss", 1, 0, 0)

    def test_a_series_knows_its_last_lowest_and_highest_point(self, store: SqlMetricStore) -> None:
        store.write([logged(5, 2), logged(2, 9, 4, first=2)])
        (series,) = store.series(RUN)
        assert (series.name, series.rank, series.count) == ("loss", 0, 5)
        assert series.last == Point("loss", 4, 4, 4000)
        assert series.min == Point("loss", 2, 1, 1000)
        assert series.max == Point("loss", 9, 3, 3000)

    def test_the_last_point_has_the_highest_step_then_time_then_value(self, store: SqlMetricStore) -> None:
        points = [Point("acc", 1, 9, 5), Point("acc", 3, 9, 7), Point("acc", 2, 9, 7), Point("acc", 8, 1, 9)]
        for point in points:
            store.write([PointsLogged(RUN, 0, (point,))])
        assert store.series(RUN)[0].last == Point("acc", 3, 9, 7)

    def test_values_that_are_no_numbers_and_infinite_ones_are_kept(self, store: SqlMetricStore) -> None:
        store.write([logged(math.nan, math.inf, -math.inf, math.nan)])
        found = values_of(store.history(RUN, "loss", 0).points)
        assert [str(value) for value in found] == ["nan", "inf", "-inf", "nan"]
        (series,) = store.series(RUN)
        assert series.min is not None
        assert series.max is not None
        assert (series.min.value, series.max.value) == (-math.inf, math.inf)
        assert math.isnan(series.last.value)

    def test_a_series_without_numbers_has_neither_lowest_nor_highest(self, store: SqlMetricStore) -> None:
        store.write([logged(math.nan, math.nan)])
        (series,) = store.series(RUN)
        assert (series.min, series.max, series.count) == (None, None, 2)

    def test_ranks_and_names_are_kept_apart_in_the_order_in_which_they_began(self, store: SqlMetricStore) -> None:
        store.write(
            [
                logged(0, name="system/a"),
                logged(1, name="b", rank=3),
                logged(2, name="a"),
                logged(3, name="b"),
                logged(4, rank=node_rank(1)),
            ]
        )
        store.write([logged(5, name="a", first=1)])
        assert [(one.name, one.rank, one.count) for one in store.series(RUN)] == [
            ("system/a", 0, 1), ("b", 3, 1), ("a", 0, 2), ("b", 0, 1), ("loss", -2, 1),
        ]  # fmt: skip
        assert store.primaries([RUN, NESTED])[RUN].series.name == "a"
        assert list(store.primaries([RUN, NESTED])) == [RUN]

    def test_metric_that_is_no_number_any_more_is_found_with_its_first_step(self, store: SqlMetricStore) -> None:
        store.write([logged(1, math.nan, 2, name="recovered"), logged(math.nan, name="other-rank", rank=1)])
        store.write([logged(1, math.inf, 3, math.nan, math.inf, name="lost"), logged(math.nan, name="later")])
        found = store.not_finite([RUN, NESTED])
        assert list(found) == [RUN]
        assert (found[RUN].name, found[RUN].step) == ("lost", 3)
        assert math.isnan(found[RUN].value)
        store.write([logged(4, name="lost", first=5), logged(5, name="later", first=1)])
        assert store.not_finite([RUN]) == {}

    def test_a_history_is_read_in_pages(self, store: SqlMetricStore) -> None:
        store.write([logged(*range(10))])
        page = store.history(RUN, "loss", 0, limit=4)
        found = list(page.points)
        while not page.is_last:
            page = store.history(RUN, "loss", 0, page.after, 4)
            found += page.points
        assert values_of(found) == list(range(10))
        assert store.history(RUN, "loss", 0, limit=10).is_last
        assert store.history(RUN, "other", 0).points == ()

    def test_a_reader_of_a_history_goes_on_with_points_that_came_later(self, store: SqlMetricStore) -> None:
        store.write([logged(1, 2)])
        page = store.history(RUN, "loss", 0)
        assert (page.after, page.is_last) == (2, True)
        store.write([logged(3, first=2)])
        assert values_of(store.history(RUN, "loss", 0, page.after).points) == [3]

    @pytest.mark.parametrize("count", [0, 1, 9, 64, 65, 1000, 5000])
    def test_a_curve_has_the_first_last_lowest_and_highest_point(self, store: SqlMetricStore, count: int) -> None:
        values = [float((n * 7919) % 1009) for n in range(count)]
        for start in range(0, count, 130):
            store.write([logged(*values[start : start + 130], first=start)])
        for max_points in (4, 10, 41):
            curve = store.curve(RUN, "loss", 0, max_points)
            assert len(curve) == count if count <= max_points else len(curve) <= max_points
            assert all(values[point.step] == point.value for point in curve)
            assert [point.step for point in curve] == sorted({point.step for point in curve})
            if values:
                assert (curve[0].step, curve[-1].step) == (0, count - 1)
                assert (min(values_of(curve)), max(values_of(curve))) == (min(values), max(values))

    def test_curves_of_runs_are_those_of_each_run(self, store: SqlMetricStore) -> None:
        counts = {RUN: 5000, "b" * 32: 3, "c" * 32: 100}
        for run, count in counts.items():
            store.write([logged(*(n * 7919 % 1009 for n in range(count)), run=run)])
        store.write([logged(1, 2, rank=1), logged(1, name="other", run="d" * 32)])
        for max_points in (10, 200):
            curves = store.curves([*counts, "d" * 32, "e" * 32], "loss", max_points)
            assert curves == {run: store.curve(run, "loss", 0, max_points) for run in counts}
        assert store.curves([], "loss", 10) == {}

    def test_means_of_parts_are_those_of_the_points_in_each(self, store: SqlMetricStore) -> None:
        store.write([logged(*range(12), name="system/a"), logged(5, math.nan, name="system/b", rank=1, first=10)])
        store.write([logged(9, 9), logged(1, name="system/a", run="b" * 32)])
        means = store.part_means(RUN, "system/", 3)
        assert (means.start_ms, means.width_ms, means.parts) == (0, 3667, 3)
        assert [(one.name, one.rank, values) for one, values in means.series] == [
            ("system/a", 0, (1.5, 5.5, 9.5)), ("system/b", 1, (None, None, 5.0)),
        ]  # fmt: skip
        assert store.part_means("c" * 32, "system/", 3).series == ()

    def test_means_of_long_series_are_near_those_of_all_points(self, store: SqlMetricStore) -> None:
        store.write([logged(*(n * 7919 % 1009 for n in range(7001)), name="system/a")])
        ((_, values),) = store.part_means(RUN, "system/", 4).series
        assert [value for value in values if value is not None] == pytest.approx([504] * 4, rel=0.15)

    def test_a_curve_of_values_that_are_no_numbers_has_as_few_points(self, store: SqlMetricStore) -> None:
        store.write([logged(*[math.nan] * 3000)])
        assert 2 <= len(store.curve(RUN, "loss", 0, 20)) <= 20

    def test_a_parameter_keeps_its_first_value(self, store: SqlMetricStore) -> None:
        store.take(SOURCE, 0, spool(created(), ParamsLogged(RUN, {"lr": "1", "b": "2"})))
        taken = store.take(SOURCE, 20, spool(ParamsLogged(RUN, {"lr": "9", "b": "2", "c": "3"}), offset=20))
        assert taken.refused == (RefusedParam(RUN, "lr", "1", "9"),)
        assert store.run(RUN).params == {"b": "2", "c": "3", "lr": "1"}

    def test_a_write_with_another_value_of_a_parameter_keeps_nothing(self, store: SqlMetricStore) -> None:
        store.write([created(), ParamsLogged(RUN, {"lr": "1"})])
        with pytest.raises(ConflictError, match="'lr'"):
            store.write([TagsSet(RUN, {"a": "b"}), ParamsLogged(RUN, {"x": "1", "lr": "2"}), logged(1)])
        run = store.run(RUN)
        assert (run.params, run.tags, run.metrics) == ({"lr": "1"}, {"team": "vision"}, ())

    def test_tags_are_replaced_and_deleted(self, store: SqlMetricStore) -> None:
        store.write(
            [created(), TagsSet(RUN, {"a": "1", "größe": "ü\n"}), TagsSet(RUN, {"a": "2"}), TagDeleted(RUN, "team")]
        )
        assert store.run(RUN).tags == {"a": "2", "größe": "ü\n"}

    def test_inputs_and_outputs_are_kept_once(self, store: SqlMetricStore) -> None:
        dataset: dict[str, Any] = {"dataset": {"name": "mnist", "digest": "d1"}, "tags": []}
        inputs = InputsLogged(RUN, (dataset, dataset), ({"model_id": "m-1"},))
        store.write([created(), inputs, inputs, OutputsLogged(RUN, ({"model_id": "m-2", "step": 1},))])
        run = store.run(RUN)
        assert run.datasets == (dataset,)
        assert run.model_inputs == ({"model_id": "m-1"},)
        assert run.model_outputs == ({"model_id": "m-2", "step": 1},)


class MetricRunsContract:
    """Runs: their life, their removal, searches."""

    def test_a_run_is_as_it_was_created_and_is_created_once(self, store: SqlMetricStore) -> None:
        run = store.ensure_run(created(), "digits")
        assert (run.id, run.name, run.status, run.start_ms, run.user, run.job) == (
            RUN, "calm-fox", "RUNNING", 1000, "ada", "calm-fox",
        )  # fmt: skip
        assert run.tags == {"team": "vision"}
        assert store.experiment(run.experiment).name == "digits"
        assert store.ensure_run(replace(created(), name="other", start_ms=5), "digits") == run

    def test_points_that_come_before_their_run_belong_to_it(self, store: SqlMetricStore) -> None:
        store.write([logged(1), ParamsLogged(RUN, {"a": "1"})])
        with pytest.raises(NotFoundError):
            store.run(RUN)
        store.ensure_run(created(), "digits")
        assert store.run(RUN).metrics[0].count == 1
        assert store.run(RUN).params == {"a": "1"}

    def test_an_update_changes_what_it_names(self, store: SqlMetricStore) -> None:
        store.write([created(), RunUpdated(RUN, "FAILED", 9), RunUpdated(RUN, name="b")])
        run = store.run(RUN)
        assert (run.status, run.end_ms, run.name) == ("FAILED", 9, "b")
        store.write([RunUpdated(RUN, "RUNNING")])
        assert (store.run(RUN).status, store.run(RUN).end_ms) == ("RUNNING", None)

    def test_a_settled_run_keeps_its_end_and_ends_the_runs_within(self, store: SqlMetricStore) -> None:
        nested = RunCreated(NESTED, experiment_id("digits"), "inner", 2, job="calm-fox")
        done = replace(nested, run="f" * 32)
        store.write([created(), nested, done, RunUpdated(done.run, "FINISHED", 7)])
        assert store.open_runs() == [(RUN, "calm-fox")]
        store.settle(RUN, "KILLED", 50)
        store.write([RunUpdated(RUN, "FINISHED", 60, "renamed")])
        run, inner = store.run(RUN), store.run(NESTED)
        assert (run.status, run.end_ms, run.name) == ("KILLED", 50, "renamed")
        assert (inner.status, inner.end_ms) == ("KILLED", 50)
        assert store.run(done.run).status == "FINISHED"
        assert store.open_runs() == []
        store.write([late := replace(nested, run="e" * 32)])
        assert store.run(late.run).status == "KILLED"

    def test_a_run_outside_of_jobs_is_never_open_and_is_not_settled(self, store: SqlMetricStore) -> None:
        store.write([RunCreated(NESTED, "7", "mine", 2)])
        store.settle(NESTED, "FAILED", 3)
        assert store.open_runs() == []
        assert store.run(NESTED).status == "RUNNING"

    def test_run_outside_of_jobs_is_under_way_by_its_start_or_its_last_point(self, store: SqlMetricStore) -> None:
        store.write([created(start_ms=5000), RunCreated(NESTED, "7", "mine", 2000)])
        assert store.has_outside_run(2000, 9000)
        assert store.has_outside_run(1000, 2000)
        assert not store.has_outside_run(2001, 9000)
        store.write([logged(0.5, run=NESTED, first=6)])
        assert store.has_outside_run(2001, 9000)
        assert not store.has_outside_run(6001, 9000)
        assert not store.has_outside_run(2001, 5999)
        store.write([RunDeleted(NESTED, 7000)])
        assert not store.has_outside_run(0, 9000)
        store.write([RunRestored(NESTED), RunUpdated(NESTED, "FINISHED", 7000)])
        assert not store.has_outside_run(0, 9000)

    def test_a_removed_run_is_gone_with_all_that_its_job_wrote(self, store: SqlMetricStore) -> None:
        nested = RunCreated(NESTED, experiment_id("digits"), "inner", 2, job="calm-fox")
        other = run_id("other")
        records = [created(), nested, logged(*range(200)), logged(1, run=NESTED), ParamsLogged(RUN, {"a": "1"})]
        store.take(SOURCE, 0, spool(*records))
        store.write([created("other"), logged(1, run=other)])
        for _ in range(2):
            store.remove_run(RUN)
            store.remove_points()
        for gone in (RUN, NESTED):
            with pytest.raises(NotFoundError):
                store.run(gone)
            assert store.series(gone) == []
        assert store.taken(SOURCE) == 0
        assert store.run(other).metrics[0].count == 1
        store.take(SOURCE, 0, spool(created(), logged(7)))
        assert values_of(store.curve(RUN, "loss", 0, 10)) == [7]
        assert store.run(RUN).params == {}

    def test_a_removed_nested_run_leaves_its_job(self, store: SqlMetricStore) -> None:
        store.write([created(), RunCreated(NESTED, "7", "inner", 2, job="calm-fox")])
        store.remove_run(NESTED)
        assert store.run(RUN).name == "calm-fox"

    def test_a_deleted_run_is_shown_in_its_view_until_it_is_restored(self, store: SqlMetricStore) -> None:
        store.write([created(), RunDeleted(RUN, 77)])
        assert store.run(RUN).deleted_ms == 77
        views = [len(store.search_runs(RunSearch(view=view)).runs) for view in ("active", "deleted", "all")]
        assert views == [0, 1, 1]
        store.write([RunRestored(RUN)])
        assert store.run(RUN).deleted_ms is None
        assert len(store.search_runs(RunSearch()).runs) == 1

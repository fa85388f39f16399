"""Two runs' metrics, compared bit for bit, and what a fault has cost."""

import pytest

from drumbeat.model.errors import SpecError
from drumbeat.rehearsal.fault_costs import Cost, Strike, compute_cost
from drumbeat.rehearsal.faults import FaultKind, draw_faults, parse_faults
from drumbeat.rehearsal.metric_comparison import LoggedPoint, SeriesKey, compare_series, main_series, measures_time

pytestmark = pytest.mark.feature("F9")
LOSS = SeriesKey("loss", 0)


def points(*values: tuple[int, float], at: float = 0.0) -> list[LoggedPoint]:
    return [LoggedPoint(step, value, at + number) for number, (step, value) in enumerate(values)]


def test_step_that_was_done_again_counts_with_its_last_value():
    unbroken = {LOSS: points((1, 0.5), (2, 0.25), (3, 0.125))}
    resumed = {LOSS: points((1, 0.5), (2, 9.0), (2, 0.25), (3, 0.125))}
    assert compare_series(unbroken, resumed) == []


def test_first_step_that_differs_is_named_with_the_last_equal_one():
    unbroken = {LOSS: points((1, 0.5), (2, 0.25), (3, 0.1 + 0.2))}
    resumed = {LOSS: points((1, 0.5), (2, 0.25), (3, 0.3))}
    (found,) = compare_series(unbroken, resumed)
    assert (found.step, found.last_equal) == (3, 2)
    assert str(found) == "loss of rank 0 differs from step 3 on: 0.3, unbroken 0.30000000000000004"


@pytest.mark.parametrize(("value", "other"), [(0.0, -0.0), (1.0, 1.0000000000000002), ("NaN", 1.0)])
def test_values_differ_by_a_bit(value: float, other: float):
    assert compare_series({LOSS: points((1, value))}, {LOSS: points((1, other))})


def test_missing_and_additional_steps_are_differences():
    unbroken, longer = {LOSS: points((1, 0.5))}, {LOSS: points((1, 0.5), (2, 0.5))}
    assert str(compare_series(longer, unbroken)[0]) == "loss of rank 0 has no step 2"
    assert str(compare_series(unbroken, longer)[0]) == "loss of rank 0 has a step 2 that the unbroken run lacks"


def test_metrics_of_nodes_and_of_checkpoints_are_not_judged():
    names = (SeriesKey("system/cpu", -1), SeriesKey("system/cpu", 0), SeriesKey("checkpoint/stall_s", 0))
    assert compare_series({name: points((1, 0.5)) for name in names}, {}) == []


@pytest.mark.parametrize("name", ["step_s", "images_per_s", "time/epoch_seconds", "throughput", "it/s", "epoch_time"])
def test_names_of_times(name: str):
    assert measures_time(name)


@pytest.mark.parametrize("name", ["loss", "val_loss", "bits", "times_seen", "loss_s2", "status"])
def test_names_of_results(name: str):
    assert not measures_time(name)


def test_steps_are_counted_by_the_longest_series_of_the_lowest_rank():
    logged = {
        SeriesKey("loss", 1): points((1, 1.0), (2, 1.0), (3, 1.0)),
        SeriesKey("loss", 0): points((1, 1.0), (2, 1.0)),
        SeriesKey("epoch_loss", 0): points((1, 1.0)),
    }
    assert main_series(logged) == LOSS
    assert main_series({}) is None


def test_cost_counts_steps_that_were_done_again():
    series = [LoggedPoint(1, 1.0, 10), LoggedPoint(2, 1.0, 11), LoggedPoint(3, 1.0, 12), LoggedPoint(2, 1.0, 15)]
    cost = compute_cost(series, Strike(11.5, 11.5, "rank 0"), 13.0, 4.0)
    assert cost == Cost(step=2, resumed=2, lost_steps=2, next_step_s=3.5, extra_s=4.0)


def test_cost_of_a_fault_that_restarts_nothing_is_time_alone():
    series = [LoggedPoint(1, 1.0, 10), LoggedPoint(2, 1.0, 11), LoggedPoint(3, 1.0, 22)]
    assert compute_cost(series, Strike(11.5, 21.5, "rank 0"), None, 10.0) == Cost(2, 3, 0, 10.5, 10.0)


def test_same_seed_draws_the_same_faults_and_each_kind_takes_its_turn():
    kinds = (FaultKind.KILL, FaultKind.STOP)
    drawn = draw_faults(kinds, 5, 3)
    assert drawn == draw_faults(kinds, 5, 3) != draw_faults(kinds, 5, 4)
    assert [one.kind for one in drawn] == ["kill", "stop", "kill", "stop", "kill"]
    assert all(0 < one.when < 1 and one.index(4) in range(4) for one in drawn)


def test_unknown_fault_is_refused_with_the_list_of_faults():
    assert parse_faults("stop, kill,stop") == (FaultKind.STOP, FaultKind.KILL)
    with pytest.raises(SpecError, match="'explode' isn't a fault") as refused:
        parse_faults("kill,explode")
    assert refused.value.fix == "Choose from kill, stop, agent, keeper, cut, fill-disk."

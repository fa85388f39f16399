"""What every sampler promises. A test class inherits from this and has a fixture `sampler`."""
# ruff: noqa: S101 - asserting is what a contract does

from __future__ import annotations

from dataclasses import replace

from drumbeat.core.sweeping.parameters import Value, Values, texts
from drumbeat.core.sweeping.search import SampledTrial, Search, TrialState
from drumbeat.dialect.sweeping.search_space import Choice, QUniform, Uniform
from drumbeat.dialect.sweeping.sweep import BayesianSampling, GridSampling, RandomSampling
from drumbeat.ports import Sampler

WIDTH = QUniform(min_value=8, max_value=64, q=8)
NET = Choice([{"kind": "cnn", "width": WIDTH}, {"kind": "mlp", "depth": Choice([1, 2])}, "none"])
SPACE = {"lr": Uniform(min_value=0, max_value=1), "batch": QUniform(min_value=16, max_value=64, q=16), "net": NET}
BAYESIAN = Search(SPACE, BayesianSampling(), "maximize", seed=11)
SOBOL = replace(BAYESIAN, sampling=RandomSampling(rule="sobol"))
GRID = replace(BAYESIAN, space={"x": Choice([1, 2, 3]), "y": Choice(["a", "b"])}, sampling=GridSampling())


def score(values: Values) -> float:
    """A metric with its best at lr = 0.7."""
    return 1 - abs(float(texts(values)["lr"]) - 0.7)


class SamplerContract:
    """The contract of `Sampler`."""

    def test_same_search_has_the_same_trials_however_they_are_asked_for(self, sampler: Sampler) -> None:
        for search in (BAYESIAN, SOBOL, replace(SOBOL, sampling=RandomSampling())):
            at_once = sampler.ask(search, (), 6)
            assert at_once == sampler.ask(search, (), 6)
            one_by_one: list[SampledTrial] = []
            for _ in range(6):
                one_by_one += [SampledTrial(values) for values in sampler.ask(search, one_by_one, 1)]
            assert [trial.values for trial in one_by_one] == [*at_once]
            assert sampler.ask(replace(search, seed=12), (), 6) != at_once

    def test_values_come_from_the_search_space(self, sampler: Sampler) -> None:
        for search in (BAYESIAN, SOBOL):
            for values in sampler.ask(search, (), 25):
                assert [*values] == ["lr", "batch", "net"]
                assert values["batch"] in {16, 32, 48, 64}
                assert _is_net(values["net"])

    def test_ended_trials_of_every_kind_are_taken(self, sampler: Sampler) -> None:
        drawn = sampler.ask(BAYESIAN, (), 14)
        ends: tuple[tuple[TrialState, float | None], ...]
        ends = (("completed", 0.5), ("completed", float("nan")), ("completed", float("inf")), ("completed", None),
                ("stopped", 0.2), ("stopped", None), ("failed", None), ("failed", 0.9), ("running", 0.1))  # fmt: skip
        trials = [SampledTrial(values, *ends[place % len(ends)]) for place, values in enumerate(drawn)]
        assert len(sampler.ask(BAYESIAN, trials, 3)) == 3

    def test_grid_ends_with_its_last_combination(self, sampler: Sampler) -> None:
        first = sampler.ask(GRID, (), 4)
        trials = [SampledTrial(values) for values in first]
        assert [*first, *sampler.ask(GRID, trials, 4)] == [{"x": x, "y": y} for x in (1, 2, 3) for y in "ab"]
        assert sampler.ask(GRID, trials + trials[:2], 4) == ()

    def test_sampler_answers_again_after_it_was_closed(self, sampler: Sampler) -> None:
        before = sampler.ask(BAYESIAN, (), 2)
        sampler.close()
        assert sampler.ask(BAYESIAN, (), 2) == before

    def test_nothing_is_missing(self, sampler: Sampler) -> None:
        assert sampler.missing(BAYESIAN) == sampler.missing(GRID) == ""


def _is_net(net: Value) -> bool:
    match net:
        case {"kind": "cnn", "width": width}:
            return width in range(8, 65, 8)
        case {"kind": "mlp", "depth": depth}:
            return depth in {1, 2}
        case _:
            return net == "none"

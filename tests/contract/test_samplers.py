"""The samplers keep their contract; bayesian sampling finds better values than chance does."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from drumbeat.core.sweeping import sobol
from drumbeat.core.sweeping.parameters import texts
from drumbeat.core.sweeping.search import SampledTrial
from drumbeat.dialect import Choice, RandomSampling
from drumbeat.protocol.errors import EngineError
from drumbeat.samplers.optuna_process import OptunaProcess
from drumbeat.samplers.sampler import ServerSampler
from drumbeat.testing.pure_sampler import PureSampler
from drumbeat.testing.sampler_contract import BAYESIAN, SamplerContract, score

pytestmark = pytest.mark.feature("S1")
pytest.importorskip("optuna", reason="needs Optuna: pip install optuna")


@pytest.fixture(scope="module")
def optuna():
    process = OptunaProcess()
    yield process
    process.close()


class TestServerSampler(SamplerContract):
    @pytest.fixture
    def sampler(self, optuna):
        return ServerSampler(optuna)


class TestPureSampler(SamplerContract):
    @pytest.fixture
    def sampler(self):
        return PureSampler()


def run(sampler, search, count, trials=()):
    trials = [*trials]
    while len(trials) < count:
        trials += [SampledTrial(values, "completed", score(values)) for values in sampler.ask(search, trials, 1)]
    return trials


def test_bayesian_sampling_comes_closer_than_random_sampling(optuna):
    sampler = ServerSampler(optuna)
    random = replace(BAYESIAN, sampling=RandomSampling())
    learned = [trial.value for trial in run(sampler, BAYESIAN, 40)[20:]]
    drawn = [trial.value for trial in run(sampler, random, 40)[20:]]
    assert sum(learned) / 20 > sum(drawn) / 20 + 0.1
    assert max(learned) > 0.98


def test_bayesian_sampling_learns_which_branch_is_the_best(optuna):
    trials = []
    while len(trials) < 40:
        (values,) = optuna.ask(BAYESIAN, trials, 1)
        depth = texts(values).get("depth")
        trials.append(SampledTrial(values, "completed", 1.0 if depth == "2" else 0.0))
    # One trial in six would have it by chance.
    assert sum(trial.value for trial in trials[20:]) >= 8


def run_with_ends(optuna, states, restart_at=None):
    trials = []
    for place, state in enumerate(states):
        if place == restart_at:
            optuna.close()
        (values,) = optuna.ask(BAYESIAN, trials, 1)
        trials.append(SampledTrial(values, state, None if state == "running" else score(values)))
    return trials


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 15), st.lists(st.sampled_from(["completed", "stopped", "failed", "running"]), max_size=20))
def test_restarted_process_goes_on_with_the_same_trials(optuna, restart_at, states):
    assert run_with_ends(optuna, states, restart_at) == run_with_ends(optuna, states)


def test_killed_process_is_started_again_for_the_next_question(optuna):
    before = optuna.ask(BAYESIAN, (), 3)
    first = optuna.pid
    os.kill(first, signal.SIGKILL)
    assert optuna.ask(BAYESIAN, (), 3) == before
    assert optuna.pid not in {first, None}


def test_idle_process_ends_and_starts_with_the_next_question():
    process = OptunaProcess(idle_timeout_s=0.01)
    before = process.ask(BAYESIAN, (), 1)
    process._process.wait(30)
    assert process.pid is None
    assert process.ask(BAYESIAN, (), 1) == before
    process.close()


def test_process_ends_when_its_server_is_gone():
    process = OptunaProcess()
    process.ask(BAYESIAN, (), 1)
    process._process.stdin.close()
    assert process._process.wait(30) == 0
    process.close()


def test_process_without_an_answer_in_time_is_ended_with_a_sentence():
    process = OptunaProcess(answer_timeout_s=0.001)
    with pytest.raises(EngineError, match=r"Optuna gave no answer within 0.001 s"):
        process.ask(BAYESIAN, (), 1)
    assert process.pid is None


def test_question_that_optuna_refuses_is_an_error_of_its_own(optuna):
    with pytest.raises(EngineError, match="Optuna failed: ValueError: 'x' isn't among the values of the choice"):
        optuna.ask(replace(BAYESIAN, space={"n": Choice([1])}), [SampledTrial({"n": "x"})], 1)


def test_process_that_cannot_start_says_what_it_printed(monkeypatch, tmp_path: Path):
    (tmp_path / "optuna.py").write_text("raise ImportError('half an installation')")
    (tmp_path / "pydantic.py").write_text("raise ImportError('half an installation')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(EngineError, match="ended without an answer: ImportError: half an installation"):
        OptunaProcess().ask(BAYESIAN, (), 1)


def test_sobol_points_are_those_of_scipy():
    scipy = pytest.importorskip("scipy.stats.qmc", reason="needs scipy: pip install scipy")
    expected = scipy.Sobol(sobol.MAX_DIMENSIONS, scramble=False, bits=sobol.BITS).random(256)
    for number, point in enumerate(expected):
        ours = [sobol.coordinate(number, axis) / 2**sobol.BITS for axis in range(sobol.MAX_DIMENSIONS)]
        assert ours == pytest.approx([*point])

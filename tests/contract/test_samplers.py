"""Samplers: bayesian sweeps ask Optuna, which runs in a process of its own and keeps nothing."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from drumbeat.core.child_jobs import TrialProgress
from drumbeat.core.sweeps import sobol_sampling
from drumbeat.core.sweeps.random_sampling import draw
from drumbeat.core.sweeps.trial_values import texts
from drumbeat.jobfile import RandomSampling, SweepJob, from_dict
from drumbeat.model.errors import RefusedError, UnreachableError
from drumbeat.model.states import State
from drumbeat.server.sweeps.samplers.bayesian import MAX_AT_ONCE, BayesianSamplers
from drumbeat.server.sweeps.samplers.optuna_client import OptunaProcess

pytestmark = pytest.mark.feature("S1")
pytest.importorskip("optuna", reason="needs Optuna: pip install optuna")

STEPS = {"type": "quniform", "min_value": 8, "max_value": 64, "q": 8}
DEPTH = {"type": "choice", "values": [1, 2]}
NET = {"type": "choice", "values": [{"kind": "cnn", "width": STEPS}, {"kind": "mlp", "depth": DEPTH}, "none"]}
SPACE = {"lr": {"type": "uniform", "min_value": 0, "max_value": 1}, "batch": STEPS, "net": NET}
ENDS = [State.COMPLETED, State.CANCELED, State.FAILED, State.RUNNING, None]


def sweep(goal="maximize", space=SPACE) -> SweepJob:
    keys = {"type": "sweep", "trial": {"command": "true"}, "sampling_algorithm": "bayesian", "search_space": space}
    job = from_dict({**keys, "objective": {"goal": goal, "primary_metric": "acc"}})
    assert isinstance(job, SweepJob)
    return job


@pytest.fixture(scope="module")
def process():
    process = OptunaProcess()
    yield process
    process.close()


@pytest.fixture
def sampler(process):
    return BayesianSamplers(process)("s", sweep(), 11)


def score(values):
    """A metric with its best at lr = 0.7."""
    return 1 - abs(values["lr"] - 0.7)


def ended(number, values, best, state=State.COMPLETED):
    return TrialProgress(number, values, state, reports=1, best=best)


def run(sampler, count, metric=score):
    trials = []
    for number in range(count):
        (values,) = sampler.ask(1, trials)
        trials.append(ended(number, values, metric(values)))
    return trials


def test_same_seed_has_the_same_trials_however_they_are_asked_for(process, sampler):
    at_once = sampler.ask(6, [])
    assert at_once == sampler.ask(6, [])
    one_by_one = []
    for number in range(6):
        one_by_one += [TrialProgress(number, values) for values in sampler.ask(1, one_by_one)]
    assert [trial.values for trial in one_by_one] == at_once
    assert BayesianSamplers(process)("s", sweep(), 12).ask(6, []) != at_once


def test_many_trials_at_once_are_those_of_several_questions(sampler):
    at_once = sampler.ask(MAX_AT_ONCE + 5, [])
    first = [TrialProgress(number, values) for number, values in enumerate(at_once[:20])]
    assert sampler.ask(MAX_AT_ONCE - 15, first) == at_once[20:]


def test_values_come_from_the_search_space(sampler):
    for values in sampler.ask(25, []):
        assert [*values] == ["lr", "batch", "net"]
        assert values["batch"] in range(8, 65, 8)
        match values["net"]:
            case {"kind": "cnn", "width": width}:
                assert width in range(8, 65, 8)
            case {"kind": "mlp", "depth": depth}:
                assert depth in {1, 2}
            case other:
                assert other == "none"


def test_trials_of_every_state_and_value_are_taken(sampler):
    drawn = sampler.ask(25, [])
    kinds = [(state, best) for state in ENDS for best in (0.5, None, math.inf, -math.inf)]
    trials = [ended(number, drawn[number], best, state) for number, (state, best) in enumerate(kinds)]
    assert len(sampler.ask(3, trials)) == 3


@pytest.mark.parametrize("goal", ["maximize", "minimize"])
def test_bayesian_sampling_comes_closer_than_random_sampling(process, goal):
    sign = 1 if goal == "maximize" else -1
    job = sweep(goal)
    learned = run(BayesianSamplers(process)("s", job, 11), 40, lambda values: sign * score(values))[20:]
    drawn = [score(draw(job.search_space, RandomSampling(), 11, number)) for number in range(20, 40)]
    assert sum(sign * trial.best for trial in learned) / 20 > sum(drawn) / 20 + 0.1
    assert max(sign * trial.best for trial in learned) > 0.98


def test_bayesian_sampling_learns_which_branch_is_the_best(sampler):
    trials = run(sampler, 40, lambda values: 1.0 if texts(values).get("depth") == "2" else 0.0)
    # One trial in six would have it by chance.
    assert sum(trial.best for trial in trials[20:]) >= 8


@pytest.mark.feature("S5")
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 15), st.lists(st.sampled_from(ENDS), max_size=20))
def test_restarted_process_proposes_the_same_trials(process, sampler, restart_at, states):
    def propose(restarts):
        trials = []
        for number, state in enumerate(states):
            if number in restarts:
                process.close()
            (values,) = sampler.ask(1, trials)
            trials.append(ended(number, values, score(values), state))
        return trials

    assert propose({restart_at}) == propose(())


def test_killed_process_is_started_again_for_the_next_question(process, sampler):
    before = sampler.ask(3, [])
    first = process.pid
    os.kill(first, signal.SIGKILL)
    assert sampler.ask(3, []) == before
    assert process.pid not in {first, None}


def test_idle_process_ends_and_starts_with_the_next_question():
    process = OptunaProcess(idle_timeout_s=0.01)
    sampler = BayesianSamplers(process)("s", sweep(), 11)
    before = sampler.ask(1, [])
    process._process.wait(30)
    assert process.pid is None
    assert sampler.ask(1, []) == before
    process.close()


def test_process_ends_when_its_server_is_killed():
    script = (
        "import os, signal; from drumbeat.server.sweeps.samplers.optuna_client import OptunaProcess;"
        "process = OptunaProcess();"
        "process.ask({'space': {}, 'goal': 'minimize', 'seed': 1, 'trials': [], 'count': 1});"
        "print(process.pid, flush=True); os.kill(os.getpid(), signal.SIGKILL)"
    )
    server = subprocess.run([sys.executable, "-c", script], stdout=subprocess.PIPE, timeout=60, check=False)
    assert server.returncode == -signal.SIGKILL
    with suppress(psutil.NoSuchProcess):
        psutil.Process(int(server.stdout)).wait(timeout=30)


def test_process_without_an_answer_in_time_is_ended_and_asked_again_later():
    process = OptunaProcess(answer_timeout_s=0.001)
    with pytest.raises(UnreachableError, match=r"Optuna gave no answer within 0.001 s"):
        BayesianSamplers(process)("s", sweep(), 1).ask(1, [])
    assert process.pid is None


def test_question_that_optuna_cannot_answer_is_refused(sampler):
    with pytest.raises(RefusedError, match="Optuna failed: ValueError: 'x' isn't among the values of the choice"):
        sampler.ask(1, [TrialProgress(0, {"lr": 0.5, "batch": 8, "net": "x"})])


def test_process_that_cannot_start_is_refused_with_what_it_printed(monkeypatch, tmp_path: Path):
    (tmp_path / "pydantic.py").write_text("raise ImportError('half an installation')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(RefusedError, match="ended without an answer: ImportError: half an installation"):
        OptunaProcess().ask({})


def test_server_imports_no_optuna():
    script = (
        "import sys, drumbeat.wiring, drumbeat.cli.main; print([m for m in ('optuna', 'numpy') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_sobol_points_are_those_of_scipy():
    scipy = pytest.importorskip("scipy.stats.qmc", reason="needs scipy: pip install scipy")
    expected = scipy.Sobol(sobol_sampling.MAX_DIMENSIONS, scramble=False, bits=sobol_sampling.BITS).random(256)
    for number, point in enumerate(expected):
        ours = [
            sobol_sampling.coordinate(number, axis) / 2**sobol_sampling.BITS
            for axis in range(sobol_sampling.MAX_DIMENSIONS)
        ]
        assert ours == pytest.approx([*point])

"""Sweep files: every key, and what contradicts what."""

from typing import Any

import pytest

from drumbeat.core.sweeps.sobol_sampling import MAX_DIMENSIONS
from drumbeat.jobfile import RandomSampling, SweepJob, dumps, from_dict, loads, to_dict
from drumbeat.jobfile.sweeping.parameter_names import MAX_SOBOL, parameter_names
from drumbeat.model.errors import SpecError

SWEEP: dict[str, Any] = {
    "type": "sweep",
    "display_name": "s",
    "experiment_name": "e",
    "compute": "azureml:c",
    "inputs": {"data": {"type": "uri_folder", "path": "x"}},
    "outputs": {"o": {"mode": "upload"}},
    "trial": {
        "command": "python t.py ${{inputs.data}} ${{search_space.lr}} ${{search_space.net}} ${{outputs.o}}",
        "code": "./src",
        "environment": "azureml:e:1",
        "environment_variables": {"A": "b"},
        "distribution": {"type": "pytorch", "process_count_per_instance": 2},
        "resources": {"instance_count": 2},
    },
    "sampling_algorithm": {"type": "random", "seed": 1, "rule": "sobol", "logbase": "e"},
    "search_space": {
        "lr": {"type": "loguniform", "min_value": -6.0, "max_value": -1.0},
        "net": {
            "type": "choice",
            "values": [
                {"kind": "cnn", "width": {"type": "quniform", "min_value": 8.0, "max_value": 64.0, "q": 8.0}},
                {"kind": "mlp", "depth": 3},
            ],
        },
    },
    "objective": {"goal": "maximize", "primary_metric": "acc"},
    "early_termination": {"type": "bandit", "slack_amount": 0.2, "evaluation_interval": 1, "delay_evaluation": 5},
    "limits": {"max_total_trials": 20, "max_concurrent_trials": 4, "timeout": 3600.0, "trial_timeout": 600.0},
    "queue_settings": {"job_tier": "spot"},
    "resources": {"instance_count": 1},
    "identity": {"type": "aml_token"},
}


UNIFORM = {"type": "uniform", "min_value": 0, "max_value": 1}


def refusal(**keys: Any) -> str:
    with pytest.raises(SpecError) as caught:
        from_dict(SWEEP | keys)
    return str(caught.value)


@pytest.mark.feature("J1")
def test_every_key_of_a_sweep_is_taken_and_comes_back() -> None:
    job = from_dict(SWEEP)
    assert isinstance(job, SweepJob)
    assert to_dict(job) == SWEEP
    assert loads(dumps(job)) == job


@pytest.mark.feature("J1")
def test_a_trial_may_be_a_reference_and_sampling_a_word() -> None:
    job = from_dict(SWEEP | {"trial": "file:./trial.yml", "sampling_algorithm": "Random"})
    assert isinstance(job, SweepJob)
    assert (job.trial, job.sampling_algorithm) == ("file:./trial.yml", "random")


def test_the_log_base_may_be_a_number() -> None:
    job = from_dict(SWEEP | {"sampling_algorithm": {"type": "random", "logbase": 10}})
    assert isinstance(job, SweepJob)
    assert job.sampling_algorithm == RandomSampling(logbase=10)


@pytest.mark.feature("J1")
@pytest.mark.parametrize(
    ("keys", "sentence"),
    [
        ({"sampling_algorithm": "grid"}, "`grid` sampling can't draw from `loguniform`. Use `choice`, or `random`"),
        ({"sampling_algorithm": "bayesian"}, "Use `choice`, `uniform` or `quniform`, or `random` sampling."),
        ({"sampling_algorithm": "gird"}, "expected `random`, `grid` or `bayesian`, got `gird`. Did you mean `grid`?"),
        ({"sampling_algorithm": 3}, "expected `random`, `grid`, `bayesian` or a mapping, got the number 3"),
        ({"objective": {"goal": "best", "primary_metric": "a"}}, "expected `minimize` or `maximize`, got `best`"),
        ({"objective": {"goal": "minimize"}}, "`objective` needs the key `primary_metric`"),
        ({"early_termination": {"type": "bandit"}}, "neither of `slack_factor` and `slack_amount`"),
        (
            {"early_termination": {"type": "bandit", "slack_factor": 1, "slack_amount": 1}},
            "both of `slack_factor` and `slack_amount`. Give exactly one of them.",
        ),
        (
            {"early_termination": {"type": "truncation_selection", "truncation_percentage": 100}},
            "must be at most 99, got the number 100",
        ),
        ({"search_space": {}}, "`search_space`: needs at least 1 entries"),
        ({"search_space": {"x": {"type": "unifrm"}}}, "Did you mean `uniform`?"),
        ({"search_space": {"x": 3}}, "expected a mapping that describes a search function, got the number 3"),
        (
            {"search_space": {"x": {"type": "choice", "values": [[1]]}}},
            "a value of a choice can't be a list. Write it as a text",
        ),
        (
            {"search_space": {"x": {"type": "choice", "values": [{"y": {"type": "normal", "mu": 0}}]}}},
            "job.search_space.x.values.0.y: `search_space.x.values.0.y` needs the key `sigma`",
        ),
        ({"limits": {"max_total_trials": 0}}, "must be at least 1, got the number 0"),
        ({"trial": {"command": "${{search_space.lt}}"}}, "no value in the search space named `lt`. Did you mean `lr`?"),
        ({"trial": {"command": "${{inputs.x}}"}}, "there is no input `x`"),
        (
            {"trial": {"command": "${{search_space.width}}"}},
            "${{search_space.width}} has no value in trials that",
        ),
        ({"objective": {"goal": "minimize", "primary_metric": " "}}, "this text is empty"),
        ({"outputs": {"o": {"path": "x/${{search_space.lr}}"}}}, "${{search_space.lr}} has no meaning here"),
        ({"name": "x" * 250}, "trials are named after it, so at most 247 are left"),
        ({"search_space": {"x": {"type": "choice", "values": ["a ${{name}}"]}}}, "would be read as an expression"),
        ({"search_space": {"x": {"type": "choice", "values": [{"y": "$[[a]]"}]}}}, "Write the values without `$[[`."),
        (
            {"search_space": {"y": UNIFORM, "x": {"type": "choice", "values": [{"y": 1}]}}},
            "`y` in a branch of `x` is the name of another parameter, too. Rename one of them.",
        ),
        (
            {"sampling_algorithm": "grid", "search_space": {"x": {"type": "choice", "values": [{"y": UNIFORM}]}}},
            "`search_space.x.values.0.y`: `grid` sampling can't draw from `uniform`. Use `choice`",
        ),
        (
            {"search_space": {f"x{number}": UNIFORM for number in range(65)}},
            "`sobol` draws from at most 64 functions, and the search space has 65. Leave `rule` out.",
        ),
        ({"drumbeat": {"asha": {}}}, "one rule that ends trials early, and `early_termination` is another"),
        (
            {"early_termination": None, "drumbeat": {"asha": {"min_reports": 4, "max_reports": 4}}},
            "no rung lies below 4 reports: the first is at 4",
        ),
        ({"drumbeat": {"asha": {"reduction_factor": 1}}}, "must be at least 2, got the number 1"),
        ({"drumbeat": {"asha": {"grace_period": 1}}}, "`grace_period`"),
        (
            {"drumbeat": {"prepare": "echo ${{search_space.lt}}"}},
            "`drumbeat.prepare`: ${{search_space.lt}}: there is no value in the search space named `lt`",
        ),
        (
            {"drumbeat": {"prepare": "echo ${{search_space.width}}"}},
            "`drumbeat.prepare`: ${{search_space.width}} has no value in trials that",
        ),
    ],
)
def test_invalid_loader_arguments_are_refused(keys: dict[str, Any], sentence: str) -> None:
    assert sentence in refusal(**keys)


@pytest.mark.feature("S2")
def test_asha_and_the_keys_of_trials_are_read() -> None:
    extensions = {"asha": {"min_reports": 2, "max_reports": 50, "reduction_factor": 3}, "max_retries": 0}
    job = from_dict(
        {key: value for key, value in SWEEP.items() if key != "early_termination"} | {"drumbeat": extensions}
    )
    assert isinstance(job, SweepJob)
    assert to_dict(job)["drumbeat"] == extensions
    assert loads(dumps(job)) == job


def test_parameter_of_one_branch_may_be_used_in_an_optional_part() -> None:
    job = from_dict(SWEEP | {"trial": {"command": "t ${{search_space.kind}} $[[--w ${{search_space.width}}]]"}})
    assert isinstance(job, SweepJob)
    assert parameter_names(job.search_space) == {"lr": True, "net": True, "kind": True, "width": False, "depth": False}


def test_sobol_has_a_dimension_for_each_function_that_is_allowed() -> None:
    assert MAX_SOBOL == MAX_DIMENSIONS


def test_what_is_missing_is_named() -> None:
    with pytest.raises(SpecError) as caught:
        from_dict({"type": "sweep"})
    missing = {problem.what for problem in caught.value.fields}
    assert missing == {
        f"the job needs the key `{key}`" for key in ("trial", "sampling_algorithm", "search_space", "objective")
    }


@pytest.mark.parametrize(
    ("function", "key", "says"),
    [
        ({"type": "randint", "upper": 10**400}, "upper", "a whole number of at most 9,223,372,036,854,775,807"),
        ({"type": "randint", "upper": 2**63}, "upper", "a whole number of at most 9,223,372,036,854,775,807"),
        ({"type": "uniform", "min_value": 0, "max_value": 10**309}, "max_value", "a number between -1.8e+308 and"),
        ({"type": "normal", "mu": -(10**399), "sigma": 1}, "mu", "a number between -1.8e+308 and"),
        ({"type": "quniform", "min_value": 0, "max_value": float("inf"), "q": 1}, "max_value", "a number between"),
        ({"type": "choice", "values": [10**400]}, "values.0", "a number of at most 400 digits"),
    ],
)
def test_number_that_no_trial_can_compute_with_is_refused_at_its_key(function: Any, key: str, says: str) -> None:
    with pytest.raises(SpecError) as refused:
        from_dict({**SWEEP, "search_space": {**SWEEP["search_space"], "lr": function}})
    assert refused.value.fields[0].where == f"job.search_space.lr.{key}"
    assert says in refused.value.fields[0].what


@pytest.mark.parametrize(
    ("value", "what", "fix"),
    [
        ("[64, 32]", "can't be a list", "which the script reads by json.loads: '[64, 32]'"),
        ("null", "can't be nothing", "Write a word for it, like 'none'"),
        ("{layers: [64, 32]}", "can't be a list", "json.loads: '[64, 32]'"),
    ],
)
def test_list_or_nothing_in_a_choice_is_refused_with_a_way_out(value: str, what: str, fix: str) -> None:
    space = f"search_space: {{x: {{type: choice, values: [1, {value}]}}}}"
    sampled = f"sampling_algorithm: random\nobjective: {{goal: minimize, primary_metric: l}}\n{space}\n"
    with pytest.raises(SpecError) as caught:
        loads(f"type: sweep\ntrial: {{command: x}}\n{sampled}")
    (problem,) = caught.value.fields
    assert what in problem.what
    assert fix in problem.fix

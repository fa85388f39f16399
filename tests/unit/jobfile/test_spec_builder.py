"""Jobs made in Python: drafts that change, sweeps, and the retired estimator's options."""

import warnings
from pathlib import Path
from typing import Any

import pytest

from drumbeat.jobfile import (
    Asha,
    BanditPolicy,
    Choice,
    Command,
    CommandJob,
    Environment,
    Estimator,
    Input,
    LogNormal,
    LogUniform,
    MedianStoppingPolicy,
    MpiDistribution,
    Normal,
    Output,
    PyTorchDistribution,
    QLogNormal,
    QLogUniform,
    QNormal,
    QUniform,
    RandInt,
    Randint,
    RayDistribution,
    SweepJob,
    TensorFlowDistribution,
    TruncationSelectionPolicy,
    Uniform,
    command,
    dumps,
    load_job,
    loads,
)
from drumbeat.model.errors import SpecError


def draft(**keys: Any) -> Command:
    inputs = {"lr": 0.1, "data": Input(type="uri_folder", path="./data")}
    line = "python t.py --lr ${{inputs.lr}} --data ${{inputs.data}} --out ${{outputs.model}}"
    table: dict[str, Any] = {"inputs": inputs, "outputs": {"model": Output()}, "environment": "azureml:e:1", **keys}
    return command(command=line, code="./src", **table)


@pytest.mark.feature("J2")
def test_every_keyword_of_azures_function_has_its_key() -> None:
    job = draft(
        name="n",
        description="d",
        tags={"a": "b"},
        properties={"c": "d"},
        display_name="D",
        experiment_name="E",
        environment_variables={"A": "1"},
        distribution={"type": "pytorch", "process_count_per_instance": 2},
        compute="gpu",
        instance_count=2,
        instance_type="big",
        max_instance_count=4,
        locations=["here"],
        docker_args="--ipc=host",
        shm_size="2g",
        timeout=60,
        identity={"type": "user_identity"},
        services={"s": {"type": "ssh"}},
        job_tier="spot",
        priority="low",
        parent_job_name="p",
    ).to_job()
    assert isinstance(job, CommandJob)
    assert (job.world_size, job.resources.shm_size, job.limits.timeout) == (4, "2g", 60)
    assert (job.queue_settings.job_tier, job.queue_settings.priority) == ("spot", "low")
    assert loads(dumps(job)) == job


@pytest.mark.feature("J2")
@pytest.mark.parametrize(
    "distribution",
    [
        PyTorchDistribution(process_count_per_instance=2),
        MpiDistribution(process_count_per_instance=2),
        TensorFlowDistribution(worker_count=2, parameter_server_count=1),
        RayDistribution(port=6379),
        None,
    ],
)
def test_objects_round_trip_to_yaml(distribution: Any) -> None:
    environment = Environment(image="img", conda_file={"dependencies": ["python=3.10", {"pip": ["torch"]}]})
    job = draft(distribution=distribution, environment=environment).to_job()
    assert loads(dumps(job)) == job


@pytest.mark.feature("J2")
def test_distribution_may_be_set_after_creation_as_a_dict_in_any_case() -> None:
    job = draft()
    job.distribution = {"type": "PyTorch", "process_count_per_instance": 4}
    assert job.to_job().distribution == PyTorchDistribution(process_count_per_instance=4)
    job.distribution = MpiDistribution()
    assert job.to_job().distribution == MpiDistribution()


@pytest.mark.feature("J2")
def test_an_unknown_key_in_a_distribution_dict_warns_and_is_left_out() -> None:
    job = draft(distribution={"type": "tensorflow", "worker_count": 1, "added_property": 7, "workers_count": 2})
    with pytest.warns(UserWarning, match="distribution has no") as told:
        made = job.to_job()
    assert [str(each.message) for each in told] == [
        "distribution has no `added_property`; it is left out.",
        "distribution has no `workers_count`; it is left out. Did you mean `worker_count`?",
    ]
    assert told[0].filename == __file__
    assert made.distribution == TensorFlowDistribution(worker_count=1)


def test_a_good_distribution_dict_warns_of_nothing() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        draft(distribution={"type": "mpi"}).to_job()


@pytest.mark.feature("J2")
def test_calling_a_job_gives_a_copy_with_other_inputs() -> None:
    first = draft()
    second = first(lr=0.2)
    assert (first.inputs["lr"], second.inputs["lr"]) == (0.1, 0.2)
    second.environment_variables = {"A": "b"}
    assert first.environment_variables == {}


def test_the_settings_methods_keep_what_they_dont_name() -> None:
    job = draft(instance_count=2)
    job.set_resources(shm_size="1g")
    job.set_limits(timeout=5)
    job.set_queue_settings(priority="high")
    made = job.to_job()
    assert (made.node_count, made.resources.shm_size, made.limits.timeout) == (2, "1g", 5)
    assert made.queue_settings.priority == "high"


def test_typing_errors_are_refused() -> None:
    with pytest.raises(SpecError, match=r"command\(\) takes no `distribtion`. Did you mean `distribution`"):
        draft(distribtion=None)
    with pytest.raises(SpecError, match=r"the command has no input `dta`. Did you mean `data`"):
        draft()(dta=1)
    with pytest.raises(AttributeError):
        draft().distributon = {}  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match=r"there is no output 'modle'. Did you mean `model`"):
        _ = draft().outputs.modle  # type: ignore[attr-defined]
    with pytest.raises(SpecError, match=r"there is no input `x`"):
        command(command="${{inputs.x}}", environment="e").to_job()


@pytest.mark.feature("J2")
def test_a_sweep_draws_the_inputs_that_are_search_functions() -> None:
    job = draft(distribution=PyTorchDistribution(process_count_per_instance=2), compute="gpu", instance_count=2)
    sweep = job(lr=Uniform(0.01, 0.1)).sweep(
        primary_metric="acc",
        goal="Maximize",
        sampling_algorithm="random",
        max_total_trials=8,
        max_concurrent_trials=2,
        trial_timeout=60,
        early_termination_policy=BanditPolicy(slack_factor=0.1, evaluation_interval=2),
    )
    sweep.set_limits(timeout=600)
    made = sweep.to_job()
    assert isinstance(made, SweepJob)
    assert made.trial.command.startswith("python t.py --lr ${{search_space.lr}} --data ${{inputs.data}}")  # type: ignore[union-attr]
    assert list(made.inputs) == ["data"]
    assert made.search_space == {"lr": Uniform(0.01, 0.1)}
    assert (made.limits.max_total_trials, made.limits.timeout, made.limits.trial_timeout) == (8, 600, 60)
    assert made.objective.goal == "maximize"
    assert made.compute == "gpu"
    assert loads(dumps(made)) == made


@pytest.mark.feature("J2")
def test_a_sweeps_policy_and_objective_may_be_set_afterwards() -> None:
    sweep = draft()(lr=Choice([0.1, 0.2])).sweep(primary_metric="a", goal="minimize", sampling_algorithm="grid")
    for policy in (MedianStoppingPolicy(delay_evaluation=3), TruncationSelectionPolicy(truncation_percentage=20)):
        sweep.early_termination = policy
        assert sweep.to_job().early_termination == policy
    sweep.set_objective(primary_metric="loss", goal="maximize")
    assert sweep.to_job().objective.primary_metric == "loss"


@pytest.mark.feature("J2")
def test_drumbeat_table_of_a_job_is_that_of_its_sweep() -> None:
    job = draft(drumbeat={"max_retries": 0})(lr=Uniform(0, 1))
    sweep = job.sweep(primary_metric="a", goal="minimize")
    assert sweep.to_job().drumbeat.max_retries == 0
    sweep.drumbeat["asha"] = {}
    assert sweep.to_job().drumbeat.asha == Asha()
    assert job.drumbeat == {"max_retries": 0}


def test_a_search_function_without_a_sweep_is_refused() -> None:
    with pytest.raises(SpecError, match=r"the input `lr` is a search function. Call `.sweep\(...\)` on the job"):
        draft()(lr=Uniform(0, 1)).to_job()


@pytest.mark.feature("J2")
@pytest.mark.parametrize(
    ("function", "keys"),
    [
        (Choice([1, "a", {"inner": Uniform(0, 1)}]), {"type": "choice"}),
        (RandInt(10), {"type": "randint", "upper": 10}),
        (Uniform(0, 1), {"type": "uniform", "min_value": 0, "max_value": 1}),
        (LogUniform(-3, -1), {"type": "loguniform", "min_value": -3, "max_value": -1}),
        (QUniform(0, 1, 0.1), {"type": "quniform", "q": 0.1}),
        (QLogUniform(0, 1, q=0.1), {"type": "qloguniform", "q": 0.1}),
        (Normal(mu=0, sigma=1), {"type": "normal", "mu": 0, "sigma": 1}),
        (LogNormal(0, 1), {"type": "lognormal", "mu": 0, "sigma": 1}),
        (QNormal(0, 1, 2), {"type": "qnormal", "q": 2}),
        (QLogNormal(0, 1, 2), {"type": "qlognormal", "q": 2}),
    ],
)
def test_search_functions_take_values_by_place_as_azures_do(function: Any, keys: dict[str, Any]) -> None:
    dumped = function.model_dump()
    assert {key: dumped[key] for key in keys} == keys
    sweep = draft()(lr=function).sweep(primary_metric="a", goal="minimize").to_job()
    assert loads(dumps(sweep)) == sweep


def test_search_functions_refuse_what_cant_be_drawn() -> None:
    for bad in (lambda: Uniform(1, 0), lambda: Normal(0, 0), lambda: QUniform(0, 1, 0), lambda: Choice([])):
        with pytest.raises(SpecError):
            bad()
    with pytest.raises(TypeError, match="Uniform takes min_value, max_value: 3 values given"):
        Uniform(1, 2, 3)  # type: ignore[call-arg]
    assert Randint is RandInt


@pytest.mark.feature("J6")
def test_the_estimators_options_become_a_command_job() -> None:
    job = Estimator(
        source_directory="./src",
        entry_script="train.py",
        script_params={"--lr": 0.1, "--data-folder": Input(path="./d"), "--fp16": "", "--name": "a b", "--n": None},
        pip_packages=["torch"],
        conda_packages=["python=3.10"],
        node_count=2,
        process_count_per_node=4,
        use_gpu=True,
        distributed_backend="nccl",
        compute_target="gpu",
        experiment_name="old",
    ).to_job()
    assert job.command == (
        "python train.py --lr ${{inputs.lr}} --data-folder ${{inputs.data_folder}} --fp16 --name 'a b' --n"
    )
    assert job.inputs == {"lr": 0.1, "data_folder": Input(path="./d")}
    assert (job.code, job.compute, job.experiment_name) == ("./src", "gpu", "old")
    assert (job.node_count, job.processes_per_node, job.world_size) == (2, 4, 8)
    assert isinstance(job.environment, Environment)
    assert "cuda" in str(job.environment.image)
    assert job.environment.conda_file == {
        "channels": ["conda-forge"],
        "dependencies": ["python=3.10", "pip", {"pip": ["torch"]}],
    }
    assert loads(dumps(job)) == job


@pytest.mark.feature("J6")
@pytest.mark.parametrize(
    ("options", "distribution"),
    [
        ({}, None),
        ({"node_count": 2}, MpiDistribution()),
        ({"process_count_per_node": 2}, MpiDistribution(process_count_per_instance=2)),
        ({"distributed_backend": "gloo", "node_count": 2}, PyTorchDistribution(process_count_per_instance=1)),
        (
            {"distributed_backend": "ps", "worker_count": 2, "parameter_server_count": 1, "node_count": 3},
            TensorFlowDistribution(worker_count=2, parameter_server_count=1),
        ),
    ],
)
def test_the_estimators_backend_names_a_distribution(options: dict[str, Any], distribution: Any) -> None:
    job = Estimator(source_directory=".", entry_script="t.py", **options).to_job()
    assert job.distribution == distribution
    assert "cuda" not in str(job.environment)


@pytest.mark.feature("J6")
def test_an_estimator_refuses_what_it_cant_map() -> None:
    with pytest.raises(SpecError, match=r"`nccl`, `gloo` or `ps`, not `ncl`. Did you mean `nccl`"):
        Estimator(source_directory=".", entry_script="t.py", distributed_backend="ncl")
    with pytest.raises(SpecError, match=r"need `distributed_backend='ps'`"):
        Estimator(source_directory=".", entry_script="t.py", worker_count=2)


@pytest.mark.feature("J2")
def test_load_job_reads_what_dumps_wrote(tmp_path: Path) -> None:
    file = tmp_path / "job.yml"
    file.write_text(dumps(draft().to_job()), encoding="utf-8")
    assert load_job(file) == draft().to_job()

"""The builders carry every key of the models that they build, also one that is added to a model."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any, cast

import pytest

from drumbeat.jobfile import (
    Command,
    CommandJob,
    Input,
    Output,
    PipelineJob,
    SweepJob,
    Uniform,
    command,
    dumps,
    load_component,
    loads,
    pipeline,
)
from drumbeat.jobfile.builders.command import APART
from drumbeat.jobfile.job.extensions import Extensions
from drumbeat.jobfile.pipelines.pipeline_job import PipelineNode
from drumbeat.jobfile.pipelines.step_types import CommandNode, StepKeys, SweepNode
from drumbeat.jobfile.sweeping.sweep import Trial
from drumbeat.model.errors import SpecError

KEYS: dict[str, Any] = {
    "name": "n",
    "display_name": "D",
    "experiment_name": "E",
    "description": "d",
    "tags": {"a": "b"},
    "properties": {"c": "d"},
    "compute": "gpu",
    "identity": {"type": "user_identity"},
    "services": {"s": {"type": "tensor_board"}},
    "drumbeat": {"max_retries": 0},
    "environment": "azureml:e:1",
    "environment_variables": {"A": "1"},
    "distribution": {"type": "pytorch", "process_count_per_instance": 2},
    "resources": {"instance_count": 2},
    "limits": {"timeout": 60},
    "queue_settings": {"job_tier": "spot"},
    "parent_job_name": "p",
}
OF_A_SWEEP: dict[str, Any] = {
    "early_termination_policy": {"type": "median_stopping"},
    "max_total_trials": 3,
    "primary_metric": "acc",
    "goal": "maximize",
}
COMPONENT = (
    "name: prep\ntype: command\ncommand: p ${{inputs.data}} ${{outputs.out}}\nenvironment: e\n"
    "inputs: {data: {type: uri_folder}}\noutputs: {out: {type: uri_folder}}\n"
)


def full(**keys: Any) -> Command:
    """A command with a value at every key."""
    line = "t ${{inputs.lr}} ${{inputs.data}} ${{outputs.model}}"
    inputs = {"lr": Uniform(0, 1), "data": Input(type="uri_folder", path="./data")}
    return command(command=line, code="./src", inputs=inputs, outputs={"model": Output()}, **{**KEYS, **keys})


def step(builder: Any, **keys: Any) -> StepKeys:
    """What the builder becomes as the only step of a pipeline."""

    @pipeline
    def whole() -> None:
        made = builder()
        for key, value in keys.items():
            setattr(made, key, value)

    return cast("StepKeys", next(iter(whole().to_job().jobs.values())))


def test_command_has_an_attribute_for_every_key_of_a_job():
    assert {each.name for each in fields(Command)} - {*APART} == {*CommandJob.model_fields} - {"type"}
    assert {*KEYS, "command", "code", "inputs", "outputs"} == {*CommandJob.model_fields} - {"type"}


@pytest.mark.feature("J2")
def test_every_key_of_a_command_reaches_its_sweep():
    job = full().sweep(**OF_A_SWEEP).to_job()
    assert {*SweepJob.model_fields} - job.model_fields_set == {"resources"}, "it is in the trial"
    assert isinstance(job.trial, Trial)
    assert job.trial.model_fields_set == {*Trial.model_fields}
    reached = job.model_fields_set | job.trial.model_fields_set
    assert {*CommandJob.model_fields} - reached == {"parent_job_name"}, "a sweep has no parent"
    assert job.drumbeat.max_retries == 0
    assert job.limits.trial_timeout == 60
    assert loads(dumps(job)) == job


@pytest.mark.feature("J2")
def test_every_key_of_a_command_reaches_its_step():
    node = step(lambda: full()(lr=0.1))
    assert {*CommandNode.model_fields} - node.model_fields_set == {"name", "comment", "component"}


@pytest.mark.feature("J2")
def test_every_key_of_a_sweep_reaches_its_step():
    node = step(lambda: full()().sweep(**OF_A_SWEEP))
    in_the_component = {"resources", "environment_variables"}
    assert {*SweepNode.model_fields} - node.model_fields_set == {"name", "comment", *in_the_component}
    assert isinstance(node, SweepNode)
    assert node.drumbeat.max_retries == 0
    assert in_the_component <= node.trial.model_fields_set  # type: ignore[union-attr]


@pytest.mark.feature("J2")
def test_every_key_of_a_pipeline_reaches_it():
    keys = {key: value for key, value in KEYS.items() if key in PipelineJob.model_fields}

    @pipeline(force_rerun=True, **keys)
    def whole(data: Any) -> dict[str, Any]:
        made = full()(lr=0.1, data=data)
        return {"model": made.outputs.model}

    job = whole(Input(path="./raw")).to_job()
    assert {*PipelineJob.model_fields} - job.model_fields_set == {"component"}
    assert job.drumbeat.max_retries == 0
    assert loads(dumps(job)) == job


@pytest.mark.feature("J2")
def test_every_key_of_a_step_reaches_a_component_from_a_file(tmp_path: Path):
    (tmp_path / "prep.yml").write_text(COMPONENT, encoding="utf-8")
    prep = load_component(tmp_path / "prep.yml")
    keys = {key: value for key, value in KEYS.items() if key in CommandNode.model_fields and key != "name"}
    node = step(lambda: prep(data=Input(path="./raw")), **keys)
    left = {"name", "comment", "outputs", "command", "code"}
    assert {*CommandNode.model_fields} - node.model_fields_set == left


@pytest.mark.feature("J2")
def test_every_key_of_a_step_reaches_a_pipeline_within_another():
    keys = {key: value for key, value in KEYS.items() if key in PipelineNode.model_fields and key != "name"}

    @pipeline(force_rerun=True, **keys)
    def inner(data: Any) -> None:
        full()(lr=0.1, data=data)

    node = step(lambda: inner(Input(path="./raw")))
    assert {*PipelineNode.model_fields} - node.model_fields_set == {"name", "comment", "outputs"}


def test_pipeline_within_another_refuses_a_key_that_a_step_lacks():
    @pipeline(drumbeat={"max_retries": 0})
    def inner() -> None:
        full()(lr=0.1)

    with pytest.raises(SpecError, match=r"a pipeline that is a step of another one takes no `drumbeat`"):
        step(inner)


@pytest.mark.feature("J2")
@pytest.mark.parametrize("table", [{"max_retries": 0}, Extensions(max_retries=0)])
def test_extensions_of_a_sweep_may_be_changed_without_its_command(table: Any):
    job = full(drumbeat=table)
    sweep = job.sweep(primary_metric="acc", goal="maximize")
    sweep.tags["more"] = "x"
    sweep.drumbeat = {"asha": {"min_reports": 2}}
    made = sweep.to_job()
    assert made.drumbeat.asha is not None
    assert made.drumbeat.asha.min_reports == 2
    assert job(lr=0.1).to_job().drumbeat.max_retries == 0
    assert job.tags == KEYS["tags"]


@pytest.mark.feature("J2")
def test_own_limits_of_a_sweep_come_before_those_of_its_command():
    job = full().sweep(primary_metric="acc", goal="maximize", trial_timeout=5, priority="high").to_job()
    assert job.limits.trial_timeout == 5
    assert (job.queue_settings.priority, job.queue_settings.job_tier) == ("high", "spot")


@pytest.mark.feature("J2")
def test_output_that_is_set_by_its_name_is_that_of_the_step(tmp_path: Path):
    (tmp_path / "prep.yml").write_text(COMPONENT, encoding="utf-8")
    prep = load_component(tmp_path / "prep.yml")
    kept = Output(type="uri_folder", path="azureml://datastores/s/paths/x/")

    @pipeline
    def whole() -> None:
        made = prep(data=Input(path="./raw"))
        made.outputs.out = kept
        prep(data=made.outputs.out)

    jobs = whole().to_job().jobs
    assert jobs["made"].outputs == {"out": kept}  # type: ignore[union-attr]
    assert jobs["prep"].inputs == {"data": "${{parent.jobs.made.outputs.out}}"}  # type: ignore[union-attr]


@pytest.mark.feature("J2")
def test_artifacts_of_a_step_are_taken_without_a_declaration(tmp_path: Path):
    (tmp_path / "prep.yml").write_text(COMPONENT, encoding="utf-8")
    prep = load_component(tmp_path / "prep.yml")

    @pipeline
    def whole() -> None:
        made = prep(data=Input(path="./raw"))
        prep(data=made.outputs.artifacts)

    jobs = whole().to_job().jobs
    assert jobs["prep"].inputs == {"data": "${{parent.jobs.made.outputs.artifacts}}"}  # type: ignore[union-attr]

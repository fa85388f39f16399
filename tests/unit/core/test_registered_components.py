"""Registered components in documents: each name becomes the component, with what belongs to its steps."""

from __future__ import annotations

from typing import Any

import pytest

from drumbeat.core.pipelines.expansion import expand
from drumbeat.core.pipelines.registered_components import RegisteredComponent, resolve, snapshot_digests
from drumbeat.core.pipelines.step_jobs import step_request
from drumbeat.jobfile import PipelineJob, from_dict
from drumbeat.jobfile.pipelines.component_file import RegisteredName, registered_name
from drumbeat.model.api.requests import EnvironmentFiles, JobRequest, StepParts
from drumbeat.model.errors import RefusedError, SpecError
from tests.support.messages import Messages

pytestmark = pytest.mark.feature("P1")

FIT: dict[str, Any] = {"type": "command", "command": "fit ${{inputs.lr}}", "inputs": {"lr": {"type": "number"}}}
FILES = EnvironmentFiles("conda.yml", {"conda.yml": "dependencies: []"})
KEPT = {
    "fit": RegisteredComponent("fit", "3", FIT, {"": StepParts("f" * 64, {}, FILES)}),
    "all": RegisteredComponent(
        "all", "1", {"type": "pipeline", "jobs": {"one": {"component": FIT}, "two": {"component": "azureml:fit:3"}}},
        {"one": StepParts("1" * 64)},
    ),
    "loop": RegisteredComponent("loop", "1", {"type": "pipeline", "jobs": {"again": {"component": "azureml:loop:1"}}}),
}  # fmt: skip


def look_up(name: RegisteredName, where: str) -> RegisteredComponent:
    assert where
    return KEPT[name.name]


def request(jobs: dict[str, Any], **parts: StepParts) -> JobRequest:
    return JobRequest({"type": "pipeline", "jobs": jobs}, parts=parts)


def test_a_step_has_the_components_code_and_environment_and_its_own_inputs(messages: Messages) -> None:
    node = {"component": "azureml:fit@latest", "inputs": {"lr": 1}}
    made = resolve(request({"s": node}, s=StepParts(inputs={"d": "file:///d"})), look_up)
    assert made.request.document["jobs"]["s"]["component"] == FIT
    assert made.request.parts["s"] == StepParts("f" * 64, {"d": "file:///d"}, FILES)
    assert [(one.name, one.version, one.role) for one in made.used] == [("fit", "3", "step s")]
    messages.check(*made.notes)


def test_environment_of_a_step_precedes_the_components() -> None:
    own = EnvironmentFiles("own.yml", {"own.yml": ""})
    node = {"component": "azureml:fit:3", "environment": {"conda_file": "own.yml"}}
    made = resolve(request({"s": node}, s=StepParts(environment=own)), look_up)
    assert made.request.parts["s"] == StepParts("f" * 64, {}, own)
    assert made.notes == ()


def test_a_registered_pipeline_is_a_nested_one_with_the_parts_of_its_steps() -> None:
    made = resolve(request({"s": {"component": "azureml:all:1"}}), look_up)
    node = made.request.document["jobs"]["s"]
    assert (node["type"], node["component"]["jobs"]["two"]["component"]) == ("pipeline", FIT)
    assert {path: one.code for path, one in made.request.parts.items()} == {"s/one": "1" * 64, "s/two": "f" * 64}
    assert [one.role for one in made.used] == ["step s", "step s/two"]


def test_a_sweep_of_a_registered_component_has_its_command() -> None:
    space = {"lr": {"type": "choice", "values": [1, 2]}}
    made = resolve(JobRequest({"type": "sweep", "trial": "azureml:fit:3", "search_space": space}), look_up)
    assert made.request.document["trial"] == {"command": "fit ${{search_space.lr}}"}
    assert (made.request.code, made.request.environment) == ("f" * 64, FILES)


def test_components_that_name_one_another_in_a_circle_are_refused() -> None:
    with pytest.raises(RefusedError, match="components name one another in a circle"):
        resolve(request({"s": {"component": "azureml:loop:1"}}), look_up)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("azureml:fit:3", RegisteredName("fit", "3")),
        ("azureml:fit@latest", RegisteredName("fit")),
        ("azureml:fit", RegisteredName("fit")),
        (
            "azureml:/subscriptions/s/workspaces/w/components/fit/versions/3",
            RegisteredName("fit", "3"),
        ),
        ("azureml://registries/r/components/fit/labels/latest", RegisteredName("fit")),
        ("azureml://registries/r/components/fit", RegisteredName("fit")),
        ("./fit.yml", None),
        ("file:fit.yml", None),
    ],
)
def test_a_text_names_a_registered_component_or_a_file(text: str, name: RegisteredName | None) -> None:
    assert registered_name(text) == name


def test_a_label_that_components_do_not_have_is_refused() -> None:
    with pytest.raises(SpecError, match="components have no label `best`"):
        registered_name("azureml:fit@best")


def test_snapshots_of_parts_are_named() -> None:
    parts = {
        "": StepParts("a" * 64, {"d": f"snapshot:{'b' * 64}", "e": "file:///e"}, EnvironmentFiles(context="c" * 64))
    }
    assert snapshot_digests(parts) == {"a" * 64, "b" * 64, "c" * 64}


def test_data_at_an_input_of_a_registered_component_is_the_steps_default() -> None:
    port = {"type": "uri_folder", "path": "./d"}
    read = {"type": "command", "command": "cat ${{inputs.d}}", "inputs": {"d": port}}
    kept = RegisteredComponent("read", "1", read, {"": StepParts(inputs={"d": "snapshot:" + "d" * 64})})
    steps = {
        "bare": {"component": "azureml:read:1"},
        "given": {"component": "azureml:read:1", "inputs": {"d": {"type": "uri_folder", "path": "./own"}}},
        "absent": {"component": "azureml:read:1", "inputs": {"d": "${{parent.inputs.none}}"}},
    }
    document = {
        "type": "pipeline", "jobs": steps, "inputs": {"none": {"type": "uri_folder", "optional": True}},
        "settings": {"default_compute": "local"},
    }  # fmt: skip
    asked = JobRequest(document, parts={"given": StepParts(inputs={"d": "file:///own"})})
    made = resolve(asked, lambda _name, _where: kept).request
    job = from_dict(made.document)
    assert isinstance(job, PipelineJob)
    graph = expand(job, "p")
    places = {path: step_request(made, graph, "p", path, {}).inputs for path in steps}
    default = {"d": "snapshot:" + "d" * 64}
    assert places == {"bare": default, "given": {"d": "file:///own"}, "absent": default}
    assert snapshot_digests(made.parts) == {"d" * 64}


@pytest.mark.parametrize("inner", [FIT, {"type": "pipeline", "jobs": {"s": {"command": "true"}}}])
def test_pipelines_in_pipelines_with_more_steps_than_fit_are_refused_while_they_are_read(inner: dict[str, Any]) -> None:
    looked_up: list[str] = []

    def look_up_tenfold(name: RegisteredName, where: str) -> RegisteredComponent:
        looked_up.append(where)
        level = int(name.version)
        jobs = {f"s{i}": {"component": f"azureml:ten:{level - 1}"} for i in range(10)}
        return RegisteredComponent("ten", name.version, {"type": "pipeline", "jobs": jobs} if level > 1 else inner)

    with pytest.raises(SpecError, match="more than 1,000 steps, counting those of the pipelines in it") as refused:
        resolve(request({"s": {"component": "azureml:ten:11"}}), look_up_tenfold)
    assert refused.value.where.startswith("s/s0/s0/")
    assert len(looked_up) < 1200

"""Batch deployments: their files' keys and refusals, the component that each registers, the job of an invocation."""

from __future__ import annotations

import json
from typing import Any

import pytest

from drumbeat.jobfile import from_dict
from drumbeat.jobfile.batch.deployments import BATCH_DEPLOYMENT, ModelBatchDeployment
from drumbeat.jobfile.batch.endpoints import BATCH_ENDPOINT
from drumbeat.jobfile.batch.scoring_jobs import BatchInvocation, component_document, job_document, runner_settings
from drumbeat.jobfile.pipelines.component_file import component_from
from drumbeat.jobfile.reading.loader import load_text
from drumbeat.model.api.batch import BatchDeploymentView
from drumbeat.model.errors import SpecError
from drumbeat.parallel.settings import from_json

pytestmark = pytest.mark.feature("R3")

FILE = """\
$schema: https://azuremlschemas.azureedge.net/latest/modelBatchDeployment.schema.json
name: blue
endpoint_name: digits
type: model
model: azureml:digits:3
code_configuration: {code: ./src, scoring_script: score.py}
environment: azureml:env:1
compute: azureml:gpus
resources: {instance_count: 2}
environment_variables: {A: b}
settings:
  mini_batch_size: 20
  output_action: summary_only
  error_threshold: 7
  retry_settings: {max_retries: 1}
  logging_level: warning
"""


def deployment(text: str = FILE) -> Any:
    return load_text(text, BATCH_DEPLOYMENT, "d.yml")


def test_component_of_a_deployment_runs_the_script_with_the_model():
    given: ModelBatchDeployment = deployment()
    document = component_document(given, {"type": "custom_model", "path": "azureml:digits:3"}, "weights")
    component: Any = component_from(document)
    assert component.command == (
        "python -m drumbeat.parallel --settings '${{inputs.settings}}' --input ${{inputs.data}} "
        "--append-to ${{outputs.score}} --model ${{inputs.model}} --model-name weights -- score.py"
    )
    assert (component.name, component.code, component.environment) == ("batch_digits_blue", "./src", "azureml:env:1")
    assert (component.environment_variables, component.resources.instance_count) == ({"A": "b"}, 2)


def test_settings_have_azures_defaults_for_batch_deployments():
    assert runner_settings(deployment()) == {
        "mini_batch_size": 20, "workers": 1, "error_threshold": 7, "max_retries": 1, "timeout_s": 30.0,
        "logging_level": "WARNING", "is_appending": False,
    }  # fmt: skip
    older = deployment("name: blue\nendpoint_name: digits\nmodel: azureml:m:1\nmini_batch_size: 5\n")
    assert runner_settings(older) == {
        "mini_batch_size": 5, "workers": 1, "error_threshold": -1, "max_retries": 3, "timeout_s": 30.0,
        "logging_level": "INFO",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("before", "after", "place", "problem"),
    [
        ("model: azureml:digits:3\ncode_configuration: {code: ./src, scoring_script: score.py}\n", "", "1:1",
         "neither a model nor a script"),
        ("model: azureml:digits:3", "model: {type: custom_model}", "5:1", "expected the model's name, or its path"),
        ("environment_variables: {A: b}", "mini_batch_size: 3", "12:20", "`mini_batch_size` is there twice"),
        ("mini_batch_size: 20", "mini_batch_sise: 20", "12:3", "Did you mean `mini_batch_size`"),
        ("endpoint_name: digits", "endpoint_name: 1x", "3:16", "a letter first"),
        ("output_action: summary_only", "output_action: rows", "13:18", "append_row"),
    ],
)  # fmt: skip
def test_what_a_deployment_cannot_mean_is_refused_at_its_place(before: str, after: str, place: str, problem: str):
    assert before in FILE
    with pytest.raises(SpecError) as caught:
        deployment(FILE.replace(before, after))
    assert problem in str(caught.value)
    assert f"d.yml:{place}" in str(caught.value)


def test_endpoint_of_azures_file_is_read():
    given: Any = load_text(
        "name: digits\nauth_mode: AAD_Token\ndefaults: {deployment_name: blue}\n", BATCH_ENDPOINT, "e"
    )
    assert given.defaults.deployment_name == "blue"
    with pytest.raises(SpecError, match="aad_token"):
        load_text("name: digits\nauth_mode: key\n", BATCH_ENDPOINT, "e")


KEPT = BatchDeploymentView(
    name="blue", endpoint="digits", type="model", component="azureml:batch_digits_blue:1", compute="azureml:gpus",
    instance_count=2, settings={"mini_batch_size": 20, "workers": 1}, output_file_name="all.csv",
)  # fmt: skip


def test_job_of_an_invocation_has_what_the_invocation_says():
    asked = BatchInvocation(
        inputs={"x": {"type": "uri_folder", "path": "./f"}}, output_file_name="it's.csv", mini_batch_size=3,
        instance_count=4, output_path="azureml://datastores/d/paths/p",
    )  # fmt: skip
    document = job_document(KEPT, asked)
    from_dict(document)
    step = document["jobs"]["batchscoring"]
    assert "'" not in step["inputs"]["settings"]
    assert from_json(step["inputs"]["settings"]).file_name == "it's.csv"
    assert json.loads(step["inputs"]["settings"])["mini_batch_size"] == 3
    assert (step["resources"], step["compute"], step["drumbeat"]) == (
        {"instance_count": 4}, "azureml:gpus", {"min_nodes": 1},
    )  # fmt: skip
    assert document["outputs"]["score"]["path"] == "azureml://datastores/d/paths/p"
    assert document["inputs"]["data"]["path"] == "./f"


def test_model_deployment_takes_one_input():
    with pytest.raises(SpecError, match="2 inputs; a model deployment scores one"):
        job_document(KEPT, BatchInvocation(inputs={"a": {"path": "a"}, "b": {"path": "b"}}))

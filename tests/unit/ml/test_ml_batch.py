"""Batch endpoints of `drumbeat.ml`: what scripts make, load and change becomes what the server takes."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from drumbeat.client import Client
from drumbeat.jobfile.batch.deployments import BATCH_DEPLOYMENT
from drumbeat.jobfile.reading.loader import model_from
from drumbeat.ml import Input, MLClient, Output, load_batch_deployment, load_batch_endpoint
from drumbeat.ml.calls.batch import BatchDeploymentOperations, BatchEndpointOperations
from drumbeat.ml.constants import BatchDeploymentOutputAction
from drumbeat.ml.entities import (
    BatchDeployment,
    BatchEndpoint,
    BatchRetrySettings,
    CodeConfiguration,
    Model,
    ModelBatchDeployment,
    ModelBatchDeploymentSettings,
    PipelineComponentBatchDeployment,
    ResourceConfiguration,
)
from drumbeat.ml.exceptions import UserErrorException, ValidationException
from drumbeat.ml.objects.batch import AnyDeployment, batch_deployment_from_view
from drumbeat.model.api.batch import BatchDeploymentView, BatchEndpointView
from drumbeat.model.states import JobKind, Reason, State

pytestmark = [pytest.mark.feature("J8"), pytest.mark.feature("R3")]

BLUE = BatchDeploymentView(
    "blue", "digits", "model", "azureml:batch_digits_blue:1", "local", 2, "azureml:digits@champion",
    {"mini_batch_size": 20, "workers": 3, "max_retries": 4, "timeout_s": 60.0, "logging_level": "DEBUG"},
    output_file_name="all.csv", document={"name": "digits.blue", "component": "azureml:batch_digits_blue:1"},
)  # fmt: skip


class AnsweringClient:
    """The calls of a client with one batch endpoint and one deployment; it keeps what it is given."""

    def __init__(self) -> None:
        self.created: list[dict[str, Any]] = []
        self.components: list[dict[str, Any]] = []
        self.jobs: list[dict[str, Any]] = []
        self.planned: list[dict[str, Any]] = []
        self.connection = SimpleNamespace(line=SimpleNamespace(url="http://server/"))

    def resource(self, kind: Any, name: str) -> Any:
        return BLUE if kind.name == "batch-deployment" else BatchEndpointView("digits", "blue", document={"tags": {}})

    def plan(self, job: dict[str, Any]) -> None:
        self.planned.append(job)

    def resources(self, _: Any) -> list[Any]:
        return [BLUE]

    def list(self, **_: Any) -> list[Any]:
        return []

    def create_resource(self, kind: Any, document: Any) -> Any:
        self.created.append(dict(document))
        return kind.view(SimpleNamespace(name=document["name"], document=document))

    def create_component(self, document: Any) -> Any:
        self.components.append(document)
        return SimpleNamespace(title="batch_digits_blue:1")

    def submit(self, document: Any, *, name: str | None) -> Any:
        self.jobs.append(document)
        return SimpleNamespace(name=name or "made", type=JobKind.PIPELINE, state=State.RUNNING, reason=Reason.TRAINING)


def operations(client: AnsweringClient) -> tuple[BatchEndpointOperations, BatchDeploymentOperations]:
    def given() -> Client:
        return cast("Client", client)

    return BatchEndpointOperations(given), BatchDeploymentOperations(given)


def document_of(deployment: AnyDeployment) -> dict[str, Any]:
    """What a deployment writes, which must be a file's keys."""
    document = deployment.to_document()
    model_from(document, BATCH_DEPLOYMENT, "the deployment")
    return document


def test_deployment_of_a_script_is_the_document_of_its_file():
    deployment = ModelBatchDeployment(
        name="blue",
        endpoint_name="digits",
        model=Model(path="./weights", type="custom_model"),
        code_configuration=CodeConfiguration(code="src", scoring_script="score.py"),
        compute="local",
        settings=ModelBatchDeploymentSettings(
            instance_count=2,
            mini_batch_size=10,
            output_action=BatchDeploymentOutputAction.APPEND_ROW,
            output_file_name="predictions.csv",
            retry_settings=BatchRetrySettings(max_retries=3, timeout=30),
            logging_level="Info",
        ),
    )
    document = document_of(deployment)
    assert document["resources"] == {"instance_count": 2}
    assert document["settings"]["retry_settings"] == {"max_retries": 3, "timeout": 30}
    assert document["settings"]["logging_level"] == "info"
    flat = BatchDeployment(
        name="blue", endpoint_name="digits", model="azureml:digits:1", code_path="src", scoring_script="score.py",
        mini_batch_size=10, retry_settings=BatchRetrySettings(max_retries=1),
        resources=ResourceConfiguration(instance_count=3),
    )  # fmt: skip
    assert document_of(flat)["retry_settings"] == {"max_retries": 1}
    assert document_of(flat)["resources"] == {"instance_count": 3}
    assert document_of(flat)["code_configuration"] == {"code": "src", "scoring_script": "score.py"}


def test_deployment_is_created_with_its_component_and_runners_settings():
    client = AnsweringClient()
    deployment = BatchDeployment(
        name="blue", endpoint_name="digits", code_path="src", scoring_script="score.py", mini_batch_size=5,
        max_concurrency_per_instance=2, error_threshold=7, output_action="summary_only", compute="local",
    )  # fmt: skip
    made = operations(client)[1].begin_create_or_update(deployment).result()
    assert client.planned == [{"command": "true", "compute": "local"}]
    assert client.components[0]["code"].endswith("/src")
    assert client.created[0]["settings"] == {
        "mini_batch_size": 5, "workers": 2, "error_threshold": 7, "max_retries": 3, "timeout_s": 30.0,
        "logging_level": "INFO", "is_appending": False,
    }  # fmt: skip
    assert isinstance(made, BatchDeployment)
    assert (made.name, made.endpoint_name) == ("blue", "digits")
    assert made.output_action == "summary_only"


def test_deployment_from_the_server_is_changed_and_keeps_its_code():
    client = AnsweringClient()
    deployments = operations(client)[1]
    blue = deployments.get("blue", "digits")
    assert isinstance(blue, BatchDeployment)
    assert (blue.mini_batch_size, blue.retry_settings.timeout) == (20, 60.0)
    blue.mini_batch_size, blue.resources = 40, ResourceConfiguration(instance_count=1)
    deployments.begin_create_or_update(blue).result()
    assert client.components == []
    changed = client.created[0]
    assert changed["component"] == "azureml:batch_digits_blue:1"
    assert (changed["settings"]["mini_batch_size"], changed["settings"]["workers"]) == (40, 3)
    assert (changed["instance_count"], changed["output_file_name"]) == (1, "all.csv")
    blue.model = "azureml:digits:9"
    with pytest.raises(UserErrorException, match="its model, code and environment are only kept there"):
        deployments.begin_create_or_update(blue)
    assert [one.name for one in deployments.list("digits")] == ["blue"]


def test_default_deployment_is_set_as_azures_scripts_do():
    client = AnsweringClient()
    endpoints = operations(client)[0]
    endpoint = endpoints.get("digits")
    assert endpoint.scoring_uri == "http://server/api/v1/batch-endpoints/digits"
    endpoint.defaults.deployment_name = "green"
    endpoints.begin_create_or_update(endpoint).result()
    assert client.created[0]["defaults"] == {"deployment_name": "green"}
    made = BatchEndpoint(name="digits", default_deployment_name="blue", tags={"team": "a"})
    endpoints.begin_create_or_update(made)
    assert client.created[1] == {
        "name": "digits", "tags": {"team": "a"}, "auth_mode": "aad_token", "defaults": {"deployment_name": "blue"},
    }  # fmt: skip


def test_invocation_takes_azures_inputs_and_overrides():
    client = AnsweringClient()
    endpoints = operations(client)[0]
    job = endpoints.invoke(
        "digits",
        input=Input(type="uri_folder", path="azureml:pictures:3"),
        params_override=[{"mini_batch_size": "50"}, {"compute.instance_count": "4"}, {"output_file_name": "own.csv"}],
        outputs={"score": Output(type="uri_folder", path="azureml://datastores/d/paths/scores")},
        job_name="scored",
        experiment_name="batch",
    )
    assert (job.name, job.type, job.status) == ("scored", "pipeline", "Running")
    document = client.jobs[0]
    assert document["inputs"] == {"data": {"type": "uri_folder", "path": "azureml:pictures:3"}}
    assert document["outputs"]["score"]["path"] == "azureml://datastores/d/paths/scores"
    assert document["experiment_name"] == "batch"
    step = document["jobs"]["batchscoring"]
    assert step["resources"] == {"instance_count": 4}
    assert '"mini_batch_size": 50' in step["inputs"]["settings"]
    assert '"file_name": "own.csv"' in step["inputs"]["settings"]


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"params_override": [{"error_threshold": 1}]}, "an invocation doesn't set 'error_threshold'"),
        ({"params_override": [{"mini_batch_size": "many"}]}, "'many' is no whole number"),
        ({"outputs": {"a": Output(), "b": Output()}}, "2 outputs; a model deployment has one"),
        ({}, "0 inputs; a model deployment scores one"),
    ],
)
def test_invocation_that_asks_for_something_else_is_refused(keys: dict[str, Any], message: str):
    with pytest.raises(ValidationException, match=message):
        operations(AnsweringClient())[0].invoke("digits", **keys)


ENDPOINT = "name: digits\nauth_mode: aad_token\ndefaults: {deployment_name: blue}\n"
DEPLOYMENT = """\
name: blue
endpoint_name: digits
model: {path: ./weights, type: custom_model}
code_configuration: {code: src, scoring_script: score.py}
resources: {instance_count: 2}
mini_batch_size: 5
settings: {output_file_name: all.csv, retry_settings: {max_retries: 1, timeout: 5}}
"""


def test_files_are_loaded_with_absolute_paths_and_can_be_changed(tmp_path: Path):
    (tmp_path / "endpoint.yml").write_text(ENDPOINT)
    (tmp_path / "deployment.yml").write_text(DEPLOYMENT)
    endpoint = load_batch_endpoint(tmp_path / "endpoint.yml", params_override=[{"name": "other"}])
    assert (endpoint.name, endpoint.defaults.deployment_name) == ("other", "blue")
    deployment = load_batch_deployment(tmp_path / "deployment.yml")
    assert isinstance(deployment, ModelBatchDeployment)
    assert deployment.settings is not None
    assert deployment.settings.mini_batch_size == 5
    deployment.settings.mini_batch_size = 6
    document = document_of(deployment)
    assert document["settings"] == {
        "mini_batch_size": 6, "output_file_name": "all.csv", "retry_settings": {"max_retries": 1, "timeout": 5},
    }  # fmt: skip
    assert document["code_configuration"]["code"] == str(tmp_path / "src")
    assert document["model"]["path"] == str(tmp_path / "weights")
    assert document["resources"] == {"instance_count": 2}


def test_deployment_of_a_pipeline_names_its_component():
    deployment = PipelineComponentBatchDeployment(
        name="whole", endpoint_name="digits", component="azureml:whole:1", settings={"default_compute": "local"}
    )
    assert document_of(deployment)["component"] == "azureml:whole:1"
    shown = batch_deployment_from_view(BatchDeploymentView("whole", "digits", "pipeline", "azureml:whole:1"))
    assert isinstance(shown, PipelineComponentBatchDeployment)
    refused = PipelineComponentBatchDeployment(name="whole", endpoint_name="digits", job_definition={"a": 1})
    with pytest.raises(UserErrorException, match="takes no job_definition"):
        operations(AnsweringClient())[1].begin_create_or_update(refused)


def test_client_makes_each_by_its_class(monkeypatch: pytest.MonkeyPatch):
    client = AnsweringClient()
    ml_client = MLClient()
    monkeypatch.setattr(type(ml_client), "client", client)
    assert ml_client.begin_create_or_update(BatchEndpoint(name="digits")).result().name == "digits"
    deployment = BatchDeployment(name="blue", endpoint_name="digits", code_path=".", scoring_script="score.py")
    assert ml_client.begin_create_or_update(deployment).result().name == "blue"

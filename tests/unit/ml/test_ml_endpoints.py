"""Online endpoints of `drumbeat.ml`: what scripts make, load and change becomes what the server takes."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pytest

from drumbeat.client import Client
from drumbeat.jobfile.endpoints.deployment_keys import deployment_from, load_deployment
from drumbeat.jobfile.endpoints.endpoint_keys import endpoint_definition, endpoint_from, load_endpoint
from drumbeat.ml import MLClient, load_online_deployment, load_online_endpoint
from drumbeat.ml.calls.endpoints import OnlineDeploymentOperations, OnlineEndpointOperations
from drumbeat.ml.entities import (
    CodeConfiguration,
    DefaultScaleSettings,
    EndpointAuthKeys,
    EndpointAuthToken,
    Environment,
    KubernetesOnlineDeployment,
    KubernetesOnlineEndpoint,
    ManagedOnlineDeployment,
    ManagedOnlineEndpoint,
    Model,
    OnlineRequestSettings,
    ProbeSettings,
    ResourceRequirementsSettings,
    ResourceSettings,
    TargetUtilizationScaleSettings,
)
from drumbeat.ml.exceptions import UserErrorException, ValidationException
from drumbeat.ml.objects.endpoints import deployment_from_view
from drumbeat.model.api.endpoints import DeploymentView, EndpointKeys, EndpointToken, EndpointView
from drumbeat.model.endpoints import DeployedModel, OnlineDeployment, OnlineEndpoint, RequestSettings, ScaleSettings
from drumbeat.model.errors import RefusedError

pytestmark = [pytest.mark.feature("J8"), pytest.mark.feature("R2")]

CORPUS = Path(__file__).parents[2] / "support" / "azure_endpoints"
NOW = datetime(2026, 1, 2, tzinfo=UTC)


class AnsweringClient:
    """The calls of a client, with one endpoint and the deployments that it was given."""

    def __init__(self, state: Any = "ready", auth_mode: Any = "key") -> None:
        self.state, self.endpoint = state, OnlineEndpoint(name="digits", auth_mode=auth_mode)
        self.given: list[Any] = []

    def put_online_endpoint(self, given: Any, **_: Any) -> EndpointView:
        self.given.append(given)
        return EndpointView(endpoint_definition(given), "ready", "http://x/score", NOW)

    def online_endpoint(self, name: str) -> EndpointView:
        assert name == "digits"
        return EndpointView(self.endpoint, "ready", "http://x/score", NOW)

    def put_online_deployment(self, given: Any, **_: Any) -> DeploymentView:
        self.given.append(given)
        return self.wait_for_online_deployment(given.endpoint_name, given.name)

    def wait_for_online_deployment(self, endpoint: str, name: str) -> DeploymentView:
        made = OnlineDeployment(name=name, endpoint_name=endpoint)
        return DeploymentView(made, self.state, NOW, sentence="the script raised ValueError")

    def online_endpoint_keys(self, _: str) -> EndpointKeys:
        return EndpointKeys("first", "second")

    def online_endpoint_token(self, _: str) -> EndpointToken:
        return EndpointToken("t", NOW)

    def invoke_online_endpoint(self, _: str, body: bytes, *, deployment: str) -> bytes:
        return body + deployment.encode()


def endpoints(client: AnsweringClient) -> OnlineEndpointOperations:
    return OnlineEndpointOperations(lambda: cast("Client", client))


def deployments(client: AnsweringClient) -> OnlineDeploymentOperations:
    return OnlineDeploymentOperations(lambda: cast("Client", client))


# --- what scripts make -----------------------------------------------------------------------------------------------
def test_endpoint_of_a_script_is_the_one_of_its_file():
    made = ManagedOnlineEndpoint(name="digits", auth_mode="aml_token", tags={"a": "b"}, description="d")
    made.traffic = {"blue": 90, "green": 10}
    assert endpoint_definition(endpoint_from(made.to_document())) == OnlineEndpoint(
        name="digits", auth_mode="aml_token", tags={"a": "b"}, description="d", traffic={"blue": 90, "green": 10}
    )
    cluster = KubernetesOnlineEndpoint(name="digits", compute="azureml:lab")
    assert endpoint_definition(endpoint_from(cluster.to_document())).compute == "lab"


def test_deployment_of_a_script_is_the_one_of_its_file():
    made = ManagedOnlineDeployment(
        name="blue",
        endpoint_name="digits",
        model=Model(path="./model", name="m", version="1"),
        code_configuration=CodeConfiguration(code="./src", scoring_script="score.py"),
        environment=Environment(image="python:3.12"),
        request_settings=OnlineRequestSettings(request_timeout_ms=9000),
        liveness_probe=ProbeSettings(period=3),
        scale_settings=TargetUtilizationScaleSettings(max_instances=4),
        instance_type="cpu",
    )
    assert deployment_from(made.to_document()) == deployment_from(
        {
            "type": "managed", "name": "blue", "endpoint_name": "digits",
            "model": {"name": "m", "version": "1", "type": "custom_model", "path": "./model"},
            "code_configuration": {"code": "./src", "scoring_script": "score.py"},
            "environment": {"image": "python:3.12"}, "request_settings": {"request_timeout_ms": 9000},
            "liveness_probe": {"period": 3}, "instance_type": "cpu",
            "scale_settings": {"type": "target_utilization", "max_instances": 4},
        }
    )  # fmt: skip


def test_deployment_takes_the_script_by_its_own_keywords_and_resources_of_kubernetes():
    made = KubernetesOnlineDeployment(
        name="blue", endpoint_name="digits", code_path="./src", scoring_script="score.py",
        scale_settings=DefaultScaleSettings(),
        resources=ResourceRequirementsSettings(limits=ResourceSettings(cpu="1", gpu="2")),
    )  # fmt: skip
    document = made.to_document()
    assert document["code_configuration"] == {"code": "./src", "scoring_script": "score.py"}
    assert document["resources"] == {"limits": {"cpu": "1", "nvidia.com/gpu": "2"}}
    assert deployment_from(document).instance_count == 1


def test_invalid_deployment_of_a_script_is_azures_validation_error():
    made = ManagedOnlineDeployment(name="b", endpoint_name="digits", code_path="./src", scoring_script="score.py")
    with pytest.raises(ValidationException, match="3 to 32 characters"):
        deployments(AnsweringClient()).begin_create_or_update(made)


# --- what is loaded from files ---------------------------------------------------------------------------------------
@pytest.mark.parametrize("path", sorted(CORPUS.glob("deployment_*.yml")), ids=lambda path: path.stem)
def test_loaded_deployment_says_what_its_file_says_with_whole_paths(path: Path):
    keys, loaded = load_deployment(path), load_online_deployment(path)
    again = deployment_from(loaded.to_document())
    assert type(again) is type(keys)
    ours, files = again.model_dump(), keys.model_dump()
    for changed in (
        "model",
        "code_configuration",
        "environment",
        "app_insights_enabled",
        "egress_public_network_access",
    ):
        ours.pop(changed, None), files.pop(changed, None)
    assert ours == files
    if keys.code_configuration and again.code_configuration:
        assert again.code_configuration.code == str((CORPUS / keys.code_configuration.code).resolve())


@pytest.mark.parametrize("path", sorted(CORPUS.glob("endpoint_*.yml")), ids=lambda path: path.stem)
def test_loaded_endpoint_says_what_its_file_says(path: Path):
    again = endpoint_from(load_online_endpoint(path).to_document())
    assert endpoint_definition(again) == endpoint_definition(load_endpoint(path))


# --- operations ------------------------------------------------------------------------------------------------------
def test_traffic_is_changed_by_the_endpoint_that_was_got():
    client = AnsweringClient()
    got = endpoints(client).get("digits")
    got.traffic = {"blue": 100}
    made = endpoints(client).begin_create_or_update(got).result()
    assert (made.traffic, made.scoring_uri, made.provisioning_state) == ({"blue": 100}, "http://x/score", "Succeeded")


def test_deployment_that_is_not_ready_raises_its_sentence():
    made = ManagedOnlineDeployment(name="blue", endpoint_name="digits", code_path=".", scoring_script="score.py")
    with pytest.raises(UserErrorException, match="the script raised ValueError"):
        deployments(AnsweringClient("failed")).begin_create_or_update(made)
    assert deployments(AnsweringClient()).begin_create_or_update(made).result().provisioning_state == "Succeeded"


def test_keys_and_tokens_have_azures_names():
    keys = endpoints(AnsweringClient()).get_keys("digits")
    assert isinstance(keys, EndpointAuthKeys)
    assert keys.primary_key == "first"
    token = endpoints(AnsweringClient(auth_mode="aml_token")).get_keys("digits")
    assert isinstance(token, EndpointAuthToken)
    assert (token.access_token, token.expiry_time_utc) == ("t", int(NOW.timestamp()))


def test_request_file_is_sent_and_its_answer_is_a_text(tmp_path: Path):
    request = tmp_path / "r.json"
    request.write_text("[1]")
    operations = endpoints(AnsweringClient())
    assert operations.invoke("digits", request_file=str(request), deployment_name="blue") == "[1]blue"
    with pytest.raises(ValidationException, match="needs a body"):
        operations.invoke("digits")
    with pytest.raises(UserErrorException, match="always of a server"):
        operations.invoke("digits", request_file=str(request), local=True)


def test_deployment_of_the_server_is_changed_without_its_code():
    kept = OnlineDeployment(
        name="blue", endpoint_name="digits", code="a" * 64, scoring_script="score.py",
        model=DeployedModel("azureml:m:1"), environment="azureml:e:1",
    )  # fmt: skip
    got = deployment_from_view(DeploymentView(kept, "ready", NOW))
    got.instance_count, got.model = 3, "azureml:m:2"
    got.request_settings = OnlineRequestSettings(request_timeout_ms=7)
    got.scale_settings = TargetUtilizationScaleSettings(max_instances=4, polling_interval=2)
    client = AnsweringClient()
    deployments(client).begin_create_or_update(got)
    (given,) = client.given
    assert (given.code, given.instance_count, given.model) == ("a" * 64, 3, DeployedModel("azureml:m:2"))
    assert given.request_settings == RequestSettings(7)
    assert given.scale_settings == ScaleSettings("target_utilization", max_instances=4, polling_interval_s=2)
    got.code_configuration = CodeConfiguration("./other", "score.py")
    with pytest.raises(RefusedError, match="only kept there"):
        deployments(client).begin_create_or_update(got)


def test_client_dispatches_endpoints_and_deployments(monkeypatch: pytest.MonkeyPatch):
    client = MLClient(object(), "s", "g", "w")
    seen: list[str] = []

    def see(entity: Any, **_: Any) -> None:
        seen.append(entity.name)

    for name in ("online_endpoints", "online_deployments"):
        monkeypatch.setattr(getattr(client, name), "begin_create_or_update", see)
    client.begin_create_or_update(ManagedOnlineEndpoint(name="digits"))
    client.begin_create_or_update(KubernetesOnlineDeployment(name="blue", endpoint_name="digits"))
    assert seen == ["digits", "blue"]

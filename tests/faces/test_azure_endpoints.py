"""Endpoints and schedules of Azure's API on the wire: what is refused, who may do what, what comes back."""

from __future__ import annotations

import time
import uuid
from typing import Any

import pytest

from drumbeat.model.principal import Role
from drumbeat.resources.batch import BATCH_DEPLOYMENT
from tests.faces.azure_house import WORKSPACE, azure_house
from tests.faces.test_azure_api import ANONYMOUS, COMMAND, refusal

pytestmark = pytest.mark.feature("A1")

ENDPOINT = "onlineEndpoints/scores"
KEYED: dict[str, Any] = {"location": "local", "properties": {"authMode": "Key", "properties": {}}}
SERVED: dict[str, Any] = {"properties": {
    "endpointComputeType": "Managed",
    "environmentId": f"{WORKSPACE}/environments/served/versions/1",
    "requestSettings": {"requestTimeout": "PT2.5S", "maxConcurrentRequestsPerInstance": 3},
    "readinessProbe": {"initialDelay": "PT1S", "period": "PT2S", "failureThreshold": 4},
}, "sku": {"name": "Default", "capacity": 2}}  # fmt: skip
ROUTES = {"inferenceConfig": {"scoringRoute": {"path": "/score", "port": 8080}}}
CRON = {"triggerType": "Cron", "expression": "30 3 * * 1", "timeZone": "W. Europe Standard Time"}


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    with azure_house(tmp_path_factory.mktemp("azure")) as there:
        there.ask("PUT", "environments/served/versions/1", {"properties": {"image": "served:1", **ROUTES}})
        yield there


@pytest.fixture
def endpoint(house):
    assert house.ask("PUT", ENDPOINT, KEYED).status_code in (200, 201)
    yield f"{ENDPOINT}/deployments/blue"
    house.ask("DELETE", ENDPOINT)
    until(lambda: house.ask("GET", f"{ENDPOINT}/deletion").status_code == 200)


def until(condition):
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def changed(body: dict[str, Any], **properties: Any) -> dict[str, Any]:
    return {**body, "properties": {**body["properties"], **properties}}


@pytest.mark.parametrize(
    ("body", "part"),
    [
        (changed(KEYED, authMode="AADToken"), "no tokens of Microsoft Entra ID"),
        (changed(KEYED, traffic={"blue": 30}), "add up to 30"),
        (changed(KEYED, traffic={"blue": 100}), "has no deployment blue"),
        (changed(KEYED, traffic={"blue": "all"}), "traffic.blue"),
        (changed(KEYED, traffic=7), "traffic"),
        ({"properties": [1]}, ""),
    ],
)  # fmt: skip
def test_bad_endpoint_is_refused_with_a_sentence_and_none_is_made(house, body, part):
    answer = house.ask("PUT", "onlineEndpoints/bad", body)
    if part:
        status, message = refusal(answer)
        assert 400 <= status < 500
        assert part in message
    else:  # Clients send properties; what has none of them is an endpoint by its name alone.
        assert answer.status_code == 201
        assert house.ask("DELETE", "onlineEndpoints/bad").status_code == 202
        until(lambda: house.ask("GET", "onlineEndpoints/bad/deletion").status_code == 200)
    assert house.ask("GET", "onlineEndpoints/bad").status_code == 404


@pytest.mark.parametrize(
    ("body", "part"),
    [
        (changed(SERVED, requestSettings={"requestTimeout": "soon"}), "isn't a duration"),
        (changed(SERVED, requestSettings={"requestTimeout": "PT600S"}), "request_timeout_ms"),
        (changed(SERVED, readinessProbe={"failureThreshold": 0}), "readiness_probe.failure_threshold"),
        (changed(SERVED, scaleSettings={"scaleType": "Sometimes"}), "scale_settings"),
        (changed(SERVED, scaleSettings={"scaleType": "TargetUtilization", "minInstances": 3}), "max_instances"),
        (changed(SERVED, model=3), "expected a text"),
        (changed(SERVED, model=f"{WORKSPACE}/models/none/versions/1"), "none"),
        (changed(SERVED, environmentId=f"{ANONYMOUS}/versions/9"), "environment"),
        (changed(SERVED, codeConfiguration={"codeId": "https://x/y.git", "scoringScript": "s.py"}), "isn't on this"),
        (changed(SERVED, codeConfiguration={"codeId": f"{WORKSPACE}/codes/{uuid.UUID(int=1)}/versions/1",
                                            "scoringScript": "s.py"}), "there is no code"),
        (changed(SERVED, instanceType="Standard_DS3_v2"), "Standard_DS3_v2"),
        ({**SERVED, "sku": {"name": "Default", "capacity": 0}}, "instance_count"),
        ({"properties": {}}, "nothing that answers requests"),
    ],
)  # fmt: skip
def test_bad_deployment_is_refused_with_a_sentence_and_none_is_made(house, endpoint, body, part):
    status, message = refusal(house.ask("PUT", endpoint, body))
    assert 400 <= status < 500
    assert part in message
    assert house.ask("GET", f"{ENDPOINT}/deployments").json()["value"] == []


def test_deployment_has_the_routes_of_its_environment_written_in_it_or_registered(house, endpoint):
    for path in ("environments/served/versions/1", "environments/CliV2AnonymousEnvironment/versions/7"):
        if "Anonymous" in path:
            house.ask("PUT", path, {"properties": {"image": "served:1", **ROUTES}})
        assert house.ask("GET", path).json()["properties"]["inferenceConfig"] == ROUTES["inferenceConfig"]
        body = changed(SERVED, environmentId=f"{WORKSPACE}/{path}")
        assert house.ask("PUT", endpoint, body).status_code in (200, 201)
        stored = house.control.endpoints.catalog.deployment("scores", "blue")
        runs = stored.generations[str(stored.generation)]
        assert runs.inference_config == {"scoring_route": {"path": "/score", "port": 8080}}
    house.ask("PUT", "environments/plain/versions/1", {"properties": {"image": "served:1"}})
    plain = changed(SERVED, environmentId=f"{WORKSPACE}/environments/plain/versions/1")
    assert "its environment no routes" in refusal(house.ask("PUT", endpoint, plain))[1]


def test_deployment_of_an_endpoint_that_isnt_there_is_refused(house):
    status, message = refusal(house.ask("PUT", "onlineEndpoints/none/deployments/blue", SERVED))
    assert (status, "no online endpoint none" in message) == (404, True)


def test_reader_sees_endpoints_and_neither_their_keys_nor_changes_them(house, endpoint):
    reader = house.person("reader", Role.READER)
    assert house.ask("GET", ENDPOINT, digest=reader).json()["properties"]["authMode"] == "Key"
    for method, path in (("POST", f"{ENDPOINT}/listKeys"), ("PUT", ENDPOINT), ("DELETE", ENDPOINT), ("PUT", endpoint)):
        assert refusal(house.ask(method, path, {}, digest=reader))[0] == 403, path


def test_contributor_changes_own_endpoints_only(house):
    ada, bob = house.person("ada", Role.CONTRIBUTOR), house.person("bob", Role.CONTRIBUTOR)
    assert house.ask("PUT", "onlineEndpoints/adas", KEYED, digest=ada).status_code == 201
    renewal = {"keyType": "Primary"}
    for method, path, body in (
        ("PUT", "onlineEndpoints/adas", KEYED),
        ("PUT", "onlineEndpoints/adas/deployments/blue", SERVED),
        ("POST", "onlineEndpoints/adas/regenerateKeys", renewal),
        ("DELETE", "onlineEndpoints/adas", None),
    ):
        assert refusal(house.ask(method, path, body, digest=bob))[0] == 403, path
    before = house.ask("POST", "onlineEndpoints/adas/listKeys", {}, digest=ada).json()
    assert house.ask("POST", "onlineEndpoints/adas/regenerateKeys", renewal, digest=ada).status_code == 200
    after = house.ask("POST", "onlineEndpoints/adas/listKeys", {}, digest=ada).json()
    assert after["primaryKey"] != before["primaryKey"]
    assert after["secondaryKey"] == before["secondaryKey"]
    chosen = {"keyType": "Primary", "keyValue": "mine"}
    assert (
        "chosen by the server"
        in refusal(house.ask("POST", "onlineEndpoints/adas/regenerateKeys", chosen, digest=ada))[1]
    )
    house.ask("DELETE", "onlineEndpoints/adas", digest=ada)


# --- batch endpoints -------------------------------------------------------------------------------------------------
BATCH = "batchEndpoints/counts"
SCORED: dict[str, Any] = {"properties": {
    "environmentId": f"{WORKSPACE}/environments/served/versions/1", "computeId": None,
    "model": {"referenceType": "Id", "assetId": f"{WORKSPACE}/models/net/versions/1"},
    "miniBatchSize": 5, "outputAction": "AppendRow", "retrySettings": {"maxRetries": 2, "timeout": "PT90S"},
}}  # fmt: skip


@pytest.fixture
def batch(house):
    assert house.ask("PUT", BATCH, {"properties": {"authMode": "aadToken", "properties": {}}}).status_code == 201
    yield f"{BATCH}/deployments/blue"
    house.ask("DELETE", BATCH)


@pytest.mark.parametrize(
    ("body", "part"),
    [
        ({"properties": {"authMode": "Key"}}, "auth_mode"),
        ({"properties": {"defaults": {"deploymentName": "none"}}}, "none"),
        ({"properties": {"defaults": {"deploymentName": 3}}}, "expected a text"),
    ],
)
def test_bad_batch_endpoint_is_refused_with_a_sentence_and_none_is_made(house, body, part):
    status, message = refusal(house.ask("PUT", "batchEndpoints/bad", body))
    assert 400 <= status < 500
    assert part in message
    assert house.ask("GET", "batchEndpoints/bad").status_code == 404


@pytest.mark.parametrize(
    ("body", "part"),
    [
        (SCORED, "net"),
        (changed(SCORED, model=None), "neither a model nor a script"),
        (changed(SCORED, miniBatchSize=0), "mini_batch_size"),
        (changed(SCORED, outputAction="Shout"), "output_action"),
        (changed(SCORED, retrySettings={"timeout": "soon"}), "isn't a duration"),
        (changed(SCORED, resources={"instanceCount": 0}), "instance_count"),
        (changed(SCORED, codeConfiguration={"codeId": f"{WORKSPACE}/codes/{uuid.UUID(int=1)}/versions/1",
                                            "scoringScript": "s.py"}), "there is no code"),
        ({"properties": {"deploymentConfiguration": {"componentId": {"assetId": "here"}}}}, "names no component"),
        ({"properties": {"deploymentConfiguration": {"componentId": {
            "assetId": f"{WORKSPACE}/components/gone/versions/1"}}}}, "gone"),
    ],
)  # fmt: skip
def test_bad_batch_deployment_is_refused_with_a_sentence_and_none_is_made(house, batch, body, part):
    status, message = refusal(house.ask("PUT", batch, body))
    assert 400 <= status < 500
    assert part in message
    assert house.ask("GET", f"{BATCH}/deployments").json()["value"] == []


def test_invocation_without_a_deployment_or_with_bad_inputs_starts_no_job(house, batch):
    status, message = refusal(house.ask("POST", f"{BATCH}/jobs", {"properties": {}}))
    assert (status, "deployments: none" in message) == (400, True)
    document = {"name": "counts.blue", "component": "azureml:gone:1"}
    house.control.catalogs.service(BATCH_DEPLOYMENT).create(document, "deployment")
    data = {"jobInputType": "UriFolder", "uri": "azureml://datastores/workspaceblobstore/paths/x"}
    for properties, part in (
        ({"inputData": {}}, "0 inputs"),
        ({"inputData": {"a": data, "b": data}}, "2 inputs"),
        ({"inputData": {"a": {"jobInputType": "UriFolder"}}}, "has no address"),
        ({"inputData": {"a": data}, "errorThreshold": 3}, "are the deployment's"),
        ({"inputData": {"a": data}, "miniBatchSize": "many"}, "isn't a number of files"),
        ({"inputData": {"a": data}}, "gone"),
    ):
        status, message = refusal(house.ask("POST", f"{BATCH}/jobs", {"properties": properties}))
        assert 400 <= status < 500
        assert part in message
    assert house.ask("GET", f"{BATCH}/jobs").json()["value"] == []
    house.control.catalogs.service(BATCH_DEPLOYMENT).delete("counts.blue")


def test_jobs_of_an_endpoint_are_also_listed_by_deployment(house, batch):
    for deployment in ("blue", "green"):
        tags = {"batch_endpoint": "counts", "batch_deployment": deployment}
        assert house.ask("PUT", f"jobs/of-{deployment}", {"properties": {**COMMAND, "tags": tags}}).status_code == 201
    front = f"/mferp/managementfrontend{WORKSPACE}/{BATCH}"
    for path, names in (
        ("jobs", ["of-green", "of-blue"]), ("deployments/blue/jobs", ["of-blue"]), ("deployments/none/jobs", []),
    ):  # fmt: skip
        answers = house.ask("GET", f"{BATCH}/{path}"), house.http.get(f"{front}/{path}", headers=house.bearer())
        assert [[one["name"] for one in answer.json()["value"]] for answer in answers] == [names, names]


# --- schedules -------------------------------------------------------------------------------------------------------
def schedule(**properties: Any) -> dict[str, Any]:
    action = {"actionType": "CreateJob", "jobDefinition": {**COMMAND, "experimentName": "nightly"}}
    return {"properties": {"trigger": CRON, "action": action, "isEnabled": True, **properties}}


@pytest.mark.parametrize(
    ("body", "part"),
    [
        (schedule(trigger=None), "no type of trigger"),
        (schedule(trigger={**CRON, "expression": "at night"}), "5 fields"),
        (schedule(trigger={**CRON, "timeZone": "Mars"}), "Mars"),
        (schedule(trigger={"triggerType": "Recurrence", "frequency": "Fortnight", "interval": 1}), "frequency"),
        (schedule(action={"actionType": "CreateMonitor"}), "no schedules of type 'CreateMonitor'"),
        (schedule(action={"actionType": "CreateJob"}), "runs no jobs of type"),
        (schedule(action={"actionType": "CreateJob", "jobDefinition": {**COMMAND, "command": None}}), "command"),
        (schedule(action={"jobDefinition": {"jobType": "Pipeline", "sourceJobId": "gone"}}), "gone"),
    ],
)  # fmt: skip
def test_bad_schedule_is_refused_with_a_sentence_and_none_is_made(house, body, part):
    status, message = refusal(house.ask("PUT", "schedules/bad", body))
    assert 400 <= status < 500
    assert part in message
    assert house.ask("GET", "schedules/bad").status_code == 404


def test_schedule_that_was_read_is_changed_by_sending_it_back_and_keeps_its_job(house):
    made = house.ask("PUT", "schedules/nightly", schedule(tags={"a": "b"}))
    assert made.status_code == 201
    body = made.json()
    body["properties"] |= {"isEnabled": False, "trigger": {**CRON, "expression": "0 4 * * *"}}
    assert house.ask("PUT", "schedules/nightly", body).status_code == 201
    (one,) = house.ask("GET", "schedules", params={"listViewType": "DisabledOnly"}).json()["value"]
    assert one["properties"]["trigger"] == {**CRON, "expression": "0 4 * * *"}
    assert one["properties"]["tags"] == {"a": "b"}
    assert house.ask("GET", "schedules").json()["value"] == []
    assert house.control.schedules.show("nightly").job["command"] == "true"
    body["properties"]["action"]["jobDefinition"]["inputs"] = {"x": {"jobInputType": "literal", "value": "1"}}
    assert "other inputs" in refusal(house.ask("PUT", "schedules/nightly", body))[1]
    assert house.ask("DELETE", "schedules/nightly").status_code == 200


def test_contributor_changes_own_schedules_only_and_a_time_triggers_one_job(house):
    cleo, dan = house.person("cleo", Role.CONTRIBUTOR), house.person("dan", Role.CONTRIBUTOR)
    assert house.ask("PUT", "schedules/own", schedule(), digest=cleo).status_code == 201
    at = {"scheduleTime": "2026-11-29T03:00:00Z"}
    for method, path, body in (("PUT", "", schedule()), ("POST", "/trigger", at), ("DELETE", "", None)):
        assert refusal(house.ask(method, f"schedules/own{path}", body, digest=dan))[0] == 403
    names = {house.ask("POST", "schedules/own/trigger", at, digest=cleo).json()["submissionId"] for _ in range(2)}
    assert len(names) == 1
    assert house.control.store.load(names.pop()).job.user == "cleo"
    assert house.ask("DELETE", "schedules/own", digest=cleo).status_code == 200

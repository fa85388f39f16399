"""Online endpoints: a model behind an address, called, scaled, its traffic split, its keys renewed, and deleted."""

import json
import pathlib

from azure.ai.ml.entities import (
    CodeConfiguration,
    ManagedOnlineDeployment,
    ManagedOnlineEndpoint,
    Model,
    OnlineRequestSettings,
    ProbeSettings,
)
from connection import connect

client = connect()
endpoint = ManagedOnlineEndpoint(name="toy-endpoint", auth_mode="key", description="adds", tags={"kind": "toy"})
made = client.online_endpoints.begin_create_or_update(endpoint).result()
assert made.provisioning_state == "Succeeded"
assert made.tags["kind"] == "toy"
assert made.scoring_uri.endswith("/toy-endpoint/score")


def deployment(name: str, added: int) -> ManagedOnlineDeployment:
    return ManagedOnlineDeployment(
        name=name,
        endpoint_name="toy-endpoint",
        model=Model(path="./data/b.txt", name="toy-scored"),
        code_configuration=CodeConfiguration(code="./scoring", scoring_script="score.py"),
        environment="azureml:toy-env@latest",
        environment_variables={"ADDED": str(added)},
        instance_type="cpu",
        instance_count=1,
        request_settings=OnlineRequestSettings(request_timeout_ms=20_000, max_concurrent_requests_per_instance=2),
        readiness_probe=ProbeSettings(initial_delay=1, period=2, failure_threshold=30),
    )


for name, added in (("blue", 1), ("green", 2)):
    done = client.online_deployments.begin_create_or_update(deployment(name, added)).result()
    assert (done.name, done.instance_count) == (name, 1)
assert {one.name for one in client.online_deployments.list(endpoint_name="toy-endpoint")} == {"blue", "green"}
made.traffic = {"blue": 100, "green": 0}
made = client.online_endpoints.begin_create_or_update(made).result()
assert {name: share for name, share in made.traffic.items() if share} == {"blue": 100}

request = pathlib.Path("request.json")
request.write_text(json.dumps({"data": 40}))
answer = client.online_endpoints.invoke(endpoint_name="toy-endpoint", request_file=str(request))
assert json.loads(answer) == {"sum": 41, "model": "two\n"}, answer
answer = client.online_endpoints.invoke(
    endpoint_name="toy-endpoint", deployment_name="green", request_file=str(request)
)
assert json.loads(answer)["sum"] == 42
assert "started with" in client.online_deployments.get_logs(name="green", endpoint_name="toy-endpoint", lines=50)

before = client.online_deployments.get(name="green", endpoint_name="toy-endpoint")
assert before.provisioning_state == "Succeeded"
before.instance_count = 2
done = client.online_deployments.begin_create_or_update(before).result()
assert done.instance_count == 2
assert done.environment_variables["ADDED"] == "2"

keys = client.online_endpoints.get_keys(name="toy-endpoint")
client.online_endpoints.begin_regenerate_keys(name="toy-endpoint", key_type="secondary").result()
renewed = client.online_endpoints.get_keys(name="toy-endpoint")
assert renewed.primary_key == keys.primary_key
assert renewed.secondary_key != keys.secondary_key

seen = client.online_endpoints.get(name="toy-endpoint")
assert (seen.description, seen.auth_mode) == ("adds", "key")
passing = ManagedOnlineEndpoint(name="toy-tokens", auth_mode="aml_token")
client.begin_create_or_update(passing).result()
assert client.online_endpoints.get_keys(name="toy-tokens").access_token
client.online_endpoints.begin_delete(name="toy-tokens").result()

client.online_deployments.begin_delete(name="green", endpoint_name="toy-endpoint").result()
assert [one.name for one in client.online_deployments.list(endpoint_name="toy-endpoint")] == ["blue"]
client.online_endpoints.begin_delete(name="toy-endpoint").result()
assert "toy-endpoint" not in [one.name for one in client.online_endpoints.list()]

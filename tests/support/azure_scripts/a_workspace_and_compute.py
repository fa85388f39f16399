"""Workspaces and computes."""

from azure.ai.ml.entities import AmlCompute
from connection import connect, refusal

client = connect()
workspace = client.workspaces.get(client.workspace_name)
assert workspace.name
assert workspace.mlflow_tracking_uri
assert [one.mlflow_tracking_uri is not None for one in client.workspaces.list()] == [True]
keys = client.workspaces.get_keys(client.workspace_name)
assert (keys.user_storage_key, keys.app_insights_instrumentation_key) == (None, None)

cluster = AmlCompute(name="cpu-cluster", size="STANDARD_DS3_V2", min_instances=0, max_instances=2, tier="Dedicated")
made = client.compute.begin_create_or_update(cluster).result()
assert made.name == "cpu-cluster"
assert client.compute.get("cpu-cluster").provisioning_state == "Succeeded"
assert "cpu-cluster" in [one.name for one in client.compute.list()]
assert list(client.compute.list_nodes("cpu-cluster"))

brief = AmlCompute(name="for-a-while", size="STANDARD_DS3_V2", max_instances=1)
assert client.begin_create_or_update(brief).result().name == "for-a-while"
assert "for-a-while" in [one.name for one in client.compute.list()]
client.compute.begin_delete("for-a-while").wait()
assert "for-a-while" not in [one.name for one in client.compute.list()]

cluster.max_instances = 4
for change in (client.compute.begin_update, client.compute.begin_attach):
    assert change(cluster).result().name == "cpu-cluster"
for switch in (client.compute.begin_start, client.compute.begin_stop, client.compute.begin_restart):
    with refusal("machines"):
        switch("cpu-cluster").wait()
with refusal("no sizes of machines"):
    list(client.compute.list_sizes(location="local"))
with refusal("no quotas of a cloud"):
    list(client.compute.list_usage(location="local"))

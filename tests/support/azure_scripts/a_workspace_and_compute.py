"""Workspaces and computes."""

from azure.ai.ml.entities import AmlCompute
from connection import connect

client = connect()
workspace = client.workspaces.get(client.workspace_name)
assert workspace.name
assert workspace.mlflow_tracking_uri

cluster = AmlCompute(name="cpu-cluster", size="STANDARD_DS3_V2", min_instances=0, max_instances=2, tier="Dedicated")
made = client.compute.begin_create_or_update(cluster).result()
assert made.name == "cpu-cluster"
assert client.compute.get("cpu-cluster").provisioning_state == "Succeeded"
assert "cpu-cluster" in [one.name for one in client.compute.list()]
assert list(client.compute.list_nodes("cpu-cluster"))

client.compute.begin_create_or_update(AmlCompute(name="for-a-while", size="STANDARD_DS3_V2", max_instances=1)).result()
assert "for-a-while" in [one.name for one in client.compute.list()]
client.compute.begin_delete("for-a-while").wait()
assert "for-a-while" not in [one.name for one in client.compute.list()]

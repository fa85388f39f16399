"""A job is canceled, hidden from lists and shown again, given another name and other tags, and deleted."""

from azure.ai.ml import command
from azure.ai.ml.constants import ListViewType
from connection import connect

client = connect()
job = command(command="sleep 600", environment="azureml:toy-env:1", compute="cpu-cluster", experiment_name="scripts")
sent = client.jobs.create_or_update(job)
client.jobs.begin_cancel(sent.name).wait()
client.jobs.stream(sent.name)
assert client.jobs.get(sent.name).status in ("CancelRequested", "Canceled")
while client.jobs.get(sent.name).status != "Canceled":
    pass
client.jobs.archive(sent.name)
assert sent.name not in [one.name for one in client.jobs.list()]
assert sent.name in [one.name for one in client.jobs.list(list_view_type=ListViewType.ALL)]
client.jobs.restore(sent.name)
assert sent.name in [one.name for one in client.jobs.list()]

seen = client.jobs.get(sent.name)
seen.display_name, seen.tags["team"] = "slept", "green"
client.jobs.create_or_update(seen)
seen = client.jobs.get(sent.name)
assert (seen.display_name, seen.tags["team"], seen.status) == ("slept", "green", "Canceled")

if hasattr(client.jobs, "update"):  # Not in 1.25 and 1.30.
    client.jobs.update(sent.name, display_name="slept well", description="a nap", tags={"kind": "toy"})
    seen = client.jobs.get(sent.name)
    assert (seen.display_name, seen.description) == ("slept well", "a nap")
    assert (seen.tags["team"], seen.tags["kind"]) == ("green", "toy")

if hasattr(client.jobs, "begin_delete"):  # Not in 1.25 and 1.30.
    client.jobs.begin_delete(sent.name).wait()
    assert sent.name not in [one.name for one in client.jobs.list(list_view_type=ListViewType.ALL)]

"""Experiments: created, renamed, tagged, searched, deleted and restored."""

import mlflow
from checks import refused
from mlflow import MlflowClient
from mlflow.entities import ViewType

client = MlflowClient()
first = client.create_experiment("second", tags={"k": "v"})
refused("RESOURCE_ALREADY_EXISTS", client.create_experiment, "second")
client.set_experiment_tag(first, "x", "y")
assert client.get_experiment(first).tags == {"k": "v", "x": "y"}
client.rename_experiment(first, "renamed")
assert client.get_experiment_by_name("renamed").experiment_id == first
assert client.get_experiment_by_name("third") is None
assert mlflow.set_experiment("second").experiment_id == first
with mlflow.start_run() as run:
    assert run.info.experiment_id == first


def names(**options):
    return [one.name for one in client.search_experiments(**options)]


assert names(filter_string="name LIKE 'ren%'") == ["renamed"]
assert names(filter_string="tags.x = 'y'") == ["renamed"]
assert names(order_by=["name DESC"]) == ["renamed", "Default"]
refused("INVALID_PARAMETER_VALUE", names, filter_string="size = 'x'")
client.delete_experiment(first)
assert client.get_experiment(first).lifecycle_stage == "deleted"
assert names(view_type=ViewType.DELETED_ONLY) == ["renamed"]
refused("INVALID_PARAMETER_VALUE", client.create_run, first)
client.restore_experiment(first)
assert names(view_type=ViewType.ACTIVE_ONLY, max_results=1, order_by=["name DESC"]) == ["renamed"]
assert client.get_experiment("0").name == "Default"
refused("INVALID_PARAMETER_VALUE", client.delete_experiment, "0")
run = client.create_run("0")
assert client.get_run(run.info.run_id).info.experiment_id == client.get_experiment_by_name("Default").experiment_id

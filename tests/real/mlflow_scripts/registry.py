"""The model registry: models, versions, aliases, stages, tags, searches."""

import warnings

import mlflow
from checks import refused
from mlflow import MlflowClient

warnings.simplefilter("ignore", FutureWarning)  # Stages are deprecated, and still spoken.
client = MlflowClient()
mlflow.set_experiment("registry")
with mlflow.start_run() as run:
    mlflow.log_text("a model", "model/weights.txt")

client.create_registered_model("net", tags={"q": "1"}, description="d")
refused("RESOURCE_ALREADY_EXISTS", client.create_registered_model, "net")
for number in (1, 2):
    version = client.create_model_version("net", f"{run.info.artifact_uri}/model", run.info.run_id, tags={"n": "x"})
    assert (int(version.version), version.status) == (number, "READY")

client.set_registered_model_alias("net", "champion", "1")
assert int(client.get_model_version_by_alias("net", "champion").version) == 1
assert client.get_model_version("net", "1").aliases == ["champion"]
assert {alias: int(one) for alias, one in client.get_registered_model("net").aliases.items()} == {"champion": 1}
refused("INVALID_PARAMETER_VALUE", client.set_registered_model_alias, "net", "v1", "1")

client.transition_model_version_stage("net", "1", "Production")
client.transition_model_version_stage("net", "2", "production", archive_existing_versions=True)
assert client.get_model_version("net", "1").current_stage == "Archived"
assert [int(one.version) for one in client.get_latest_versions("net", ["Production"])] == [2]

client.set_model_version_tag("net", "1", "a", "b")
client.delete_model_version_tag("net", "1", "n")
assert client.get_model_version("net", "1").tags == {"a": "b"}
client.update_model_version("net", "2", "text")
assert client.get_model_version("net", "2").description == "text"
client.update_registered_model("net", "new")
assert client.get_registered_model("net").description == "new"

assert [int(one.version) for one in client.search_model_versions("name = 'net'")] == [2, 1]
assert [int(one.version) for one in client.search_model_versions("tags.a = 'b'")] == [1]
assert [int(one.version) for one in client.search_model_versions(f"run_id = '{run.info.run_id}'")] == [2, 1]
assert [one.name for one in client.search_registered_models("name LIKE 'n%'", order_by=["name DESC"])] == ["net"]
assert client.search_registered_models("name = 'other'") == []
assert client.get_model_version_download_uri("net", "1") == f"{run.info.artifact_uri}/model"
client.set_registered_model_tag("net", "z", "1")
client.delete_registered_model_tag("net", "z")
assert client.get_registered_model("net").tags == {"q": "1"}

client.rename_registered_model("net", "net2")
refused("RESOURCE_DOES_NOT_EXIST", client.get_registered_model, "net")
assert [int(one.version) for one in client.search_model_versions("name = 'net2'")] == [2, 1]
client.delete_model_version("net2", "1")
refused("RESOURCE_DOES_NOT_EXIST", client.get_model_version, "net2", "1")
assert client.get_registered_model("net2").aliases == {}
client.delete_model_version("net2", "2")
assert int(client.create_model_version("net2", "s3://bucket/elsewhere").version) == 3
client.delete_registered_model("net2")
assert client.search_registered_models() == []
refused("RESOURCE_DOES_NOT_EXIST", client.get_model_version, "net2", "3")

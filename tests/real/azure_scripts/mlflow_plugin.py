"""MLflow as users of Azure have it: its plugin, the workspace's address, runs with metrics, parameters and files."""

import json
import os
import pathlib
from urllib.parse import urlsplit

import mlflow
from mlflow import MlflowClient

config = json.loads(pathlib.Path("config.json").read_text())
host = urlsplit(os.environ["ARM_CLOUD_METADATA_URL"]).netloc
workspace = (
    f"/subscriptions/{config['subscription_id']}/resourceGroups/{config['resource_group']}"
    f"/providers/Microsoft.MachineLearningServices/workspaces/{config['workspace_name']}"
)
mlflow.set_tracking_uri(f"azureml://{host}/mlflow/v1.0{workspace}")
mlflow.set_experiment("by-plugin")
pathlib.Path("notes/deep").mkdir(parents=True)
pathlib.Path("notes/a b#%.txt").write_text("one")
pathlib.Path("notes/deep/c.txt").write_text("two")
with mlflow.start_run(run_name="first") as run:
    mlflow.log_param("lr", 0.1)
    for step, loss in enumerate((0.5, 0.25)):
        mlflow.log_metric("loss", loss, step=step)
    mlflow.set_tag("team", "blue")
    mlflow.log_artifact("notes/deep/c.txt")
    mlflow.log_artifacts("notes", artifact_path="kept")
    mlflow.log_text("three", "texts/d.txt")
    mlflow.log_dict({"k": 4}, "e.json")

client = MlflowClient()
seen = client.get_run(run.info.run_id)
assert seen.info.status == "FINISHED"
assert (seen.data.params["lr"], seen.data.metrics["loss"], seen.data.tags["team"]) == ("0.1", 0.25, "blue")
assert [one.value for one in client.get_metric_history(run.info.run_id, "loss")] == [0.5, 0.25]
assert seen.info.artifact_uri.startswith("azureml://"), seen.info.artifact_uri
found = {one.path for one in client.list_artifacts(run.info.run_id)}
assert found == {"c.txt", "kept", "texts", "e.json"}, found
assert {one.path for one in client.list_artifacts(run.info.run_id, "kept")} == {"kept/a b#%.txt", "kept/deep"}
place = pathlib.Path(client.download_artifacts(run.info.run_id, "kept", dst_path="."))
assert (place / "a b#%.txt").is_file(), [*place.rglob("*")]
assert (place / "a b#%.txt").read_text() == "one"
assert (place / "deep" / "c.txt").read_text() == "two"
assert mlflow.artifacts.load_text(f"{seen.info.artifact_uri}/texts/d.txt") == "three"
(again,) = mlflow.search_runs(experiment_names=["by-plugin"], output_format="list")
assert again.info.run_id == run.info.run_id

# MLflow 3 has files of a model beside those of its run.
pathlib.Path("net/data").mkdir(parents=True)
pathlib.Path("net/MLmodel").write_text("flavors: {}\n")
pathlib.Path("net/data/w.bin").write_bytes(b"weights")
with mlflow.start_run(run_name="second") as run:
    model = client.create_logged_model(run.info.experiment_id, name="net", source_run_id=run.info.run_id)
    client.log_model_artifacts(model.model_id, "net")
    client.finalize_logged_model(model.model_id, "READY")
model = mlflow.get_logged_model(model.model_id)
assert model.artifact_location.startswith("azureml://"), model.artifact_location
place = pathlib.Path(mlflow.artifacts.download_artifacts(f"models:/{model.model_id}", dst_path="./brought"))
assert (place / "MLmodel").read_text() == "flavors: {}\n", [*place.rglob("*")]
assert (place / "data" / "w.bin").read_bytes() == b"weights"
assert client.list_artifacts(run.info.run_id) == []

"""What the ranks of a job do with MLflow's client and the variables that they find."""

import os
from pathlib import Path

import mlflow
from mlflow import MlflowClient

rank, client = int(os.environ["RANK"]), MlflowClient()
run_id, own = os.environ["MLFLOW_RUN_ID"], os.environ["MLFLOW_EXPERIMENT_ID"]
chosen = mlflow.set_experiment("chosen by the script").experiment_id
for step in range(3):
    mlflow.log_metric("loss", 10 * rank + step, step=step)
assert mlflow.active_run().info.run_id == run_id
assert [one.value for one in client.get_metric_history(run_id, "loss")] == [10 * rank + n for n in range(3)]
assert client.get_run(run_id).data.metrics["loss"] == 10 * rank + 2
mlflow.log_text(f"rank {rank}", f"ranks/{rank}.txt")
assert mlflow.artifacts.load_text(f"runs:/{run_id}/ranks/{rank}.txt") == f"rank {rank}"

if rank == 0:
    mlflow.log_params({"lr": 0.1, "depth": 3})
    mlflow.set_tag("team", "a")
    Path("folder/in").mkdir(parents=True)
    Path("folder/in/x.bin").write_bytes(b"x" * 1_000_000)
    mlflow.log_artifacts("folder", "many")
    (binary,) = client.list_artifacts(run_id, "many/in")
    assert (binary.path, binary.file_size) == ("many/in/x.bin", 1_000_000)
    with mlflow.start_run(nested=True, run_name="child") as child:
        mlflow.log_metric("loss", 0.5)
        mlflow.log_dict({"a": 1}, "d.json")
    assert mlflow.artifacts.load_dict(f"runs:/{child.info.run_id}/d.json") == {"a": 1}
    found = client.search_runs([chosen], "metrics.loss = 0.5 and tags.`mlflow.runName` = 'child'")
    assert [one.info.run_id for one in found] == [child.info.run_id], found
    found = client.search_runs([own], "params.lr = '0.1'", order_by=["metrics.loss DESC"])
    assert [one.info.run_id for one in found] == [run_id]
    client.create_registered_model("net")
    client.create_model_version("net", f"{mlflow.active_run().info.artifact_uri}/many", run_id)
    client.set_registered_model_alias("net", "best", "1")
    assert client.get_model_version_by_alias("net", "best").run_id == run_id
    assert [one.name for one in client.search_registered_models("name = 'net'")] == ["net"]
    assert client.get_experiment_by_name(os.environ["MLFLOW_EXPERIMENT_NAME"]).experiment_id == own

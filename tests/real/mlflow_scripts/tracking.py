"""Runs: nested, with parameters, tags, metrics one by one and in batches, histories, searches."""

import math

import mlflow
from checks import refused
from mlflow import MlflowClient
from mlflow.entities import Metric, Param, RunTag, ViewType

client = MlflowClient()
experiment = mlflow.set_experiment("tracking")
assert mlflow.set_experiment("tracking").experiment_id == experiment.experiment_id

with mlflow.start_run(run_name="parent", tags={"team": "a"}) as run:
    mlflow.log_param("lr", 0.1)
    mlflow.log_params({"depth": 3, "name": "x"})
    mlflow.set_tag("phase", "train")
    mlflow.set_tags({"a/b": "1"})
    for step in range(5):
        mlflow.log_metric("loss", 1 / (step + 1), step=step)
    mlflow.log_metrics({"acc": 0.5, "nan": math.nan, "inf": math.inf}, step=1)
    with mlflow.start_run(nested=True, run_name="child") as child:
        mlflow.log_metric("loss", 0.01)
    assert "was already logged with value='0.1'" in refused("INVALID_PARAMETER_VALUE", mlflow.log_param, "lr", 0.2)

parent = client.get_run(run.info.run_id)
assert parent.info.status == "FINISHED", parent.info
assert parent.info.end_time >= parent.info.start_time
assert parent.info.run_name == parent.data.tags["mlflow.runName"] == "parent"
assert parent.data.params == {"lr": "0.1", "depth": "3", "name": "x"}
assert parent.data.tags["team"] == "a"
assert parent.data.tags["a/b"] == "1"
assert parent.data.metrics["loss"] == 0.2
assert math.isnan(parent.data.metrics["nan"])
assert parent.data.metrics["inf"] == math.inf
assert [one.value for one in client.get_metric_history(run.info.run_id, "loss")] == [1 / (n + 1) for n in range(5)]
assert client.get_run(child.info.run_id).data.tags["mlflow.parentRunId"] == run.info.run_id

batch = client.create_run(experiment.experiment_id, run_name="batch").info.run_id
client.log_batch(batch, metrics=[Metric("m", n / 10, 1000 + n, n) for n in range(1000)])
client.log_batch(batch, params=[Param(f"p{n}", str(n)) for n in range(100)], tags=[RunTag("t", "v")])
client.log_batch(batch, metrics=[Metric("m", 1, 1, n) for n in range(1000, 2500)])  # The client sends two.
assert len(client.get_metric_history(batch, "m")) == 2500
client.delete_tag(batch, "t")
refused("RESOURCE_DOES_NOT_EXIST", client.delete_tag, batch, "t")
client.set_terminated(batch, "FAILED")
client.update_run(batch, name="renamed")
assert client.get_run(batch).info.run_name == "renamed"


def names(text, **options):
    return [one.info.run_name for one in client.search_runs([experiment.experiment_id], text, **options)]


assert names("params.lr = '0.1' and metrics.loss < 0.5") == ["parent"]
assert names("metrics.loss > 0", order_by=["metrics.loss ASC"]) == ["child", "parent"]
assert names("attributes.status = 'FAILED'") == ["renamed"]
assert names("tags.team LIKE 'a%'") == ["parent"]
assert names("tags.`mlflow.runName` ILIKE 'REN%'") == ["renamed"]
assert names(f"attributes.run_id IN ('{run.info.run_id}', 'x')") == ["parent"]
assert names("run_name != 'parent'", order_by=["attributes.run_name DESC"]) == ["renamed", "child"]
refused("INVALID_PARAMETER_VALUE", names, "metrics.loss LIKE 'x'")
refused("INVALID_PARAMETER_VALUE", names, "nonsense")
oldest_first = {"max_results": 2, "order_by": ["attributes.start_time ASC"]}
page = client.search_runs([experiment.experiment_id], **oldest_first)
rest = client.search_runs([experiment.experiment_id], page_token=page.token, **oldest_first)
assert [one.info.run_name for one in [*page, *rest]] == ["parent", "child", "renamed"]
assert not rest.token

client.delete_run(batch)
assert "renamed" not in names("")
assert names("", run_view_type=ViewType.DELETED_ONLY) == ["renamed"]
refused("INVALID_PARAMETER_VALUE", client.log_metric, batch, "m", 1)
client.restore_run(batch)
assert "renamed" in names("")
refused("RESOURCE_DOES_NOT_EXIST", client.get_run, "0" * 32)

"""Batch endpoints: a deployment that scores a folder, called, changed, and deleted."""

import pathlib

from azure.ai.ml import Input
from azure.ai.ml.constants import AssetTypes, BatchDeploymentOutputAction
from azure.ai.ml.entities import (
    BatchEndpoint,
    BatchRetrySettings,
    CodeConfiguration,
    Model,
    ModelBatchDeployment,
    ModelBatchDeploymentSettings,
)
from connection import connect

client = connect()
made = client.batch_endpoints.begin_create_or_update(
    BatchEndpoint(name="toy-batch", description="counts", tags={"kind": "toy"})
).result()
assert (made.name, made.tags["kind"]) == ("toy-batch", "toy")
deployment = ModelBatchDeployment(
    name="blue",
    endpoint_name="toy-batch",
    model=Model(path="./data/b.txt", name="toy-counted"),
    code_configuration=CodeConfiguration(code="./scoring", scoring_script="batch.py"),
    environment="azureml:toy-env:1",
    compute="cpu-cluster",
    settings=ModelBatchDeploymentSettings(
        instance_count=1,
        mini_batch_size=2,
        max_concurrency_per_instance=1,
        output_action=BatchDeploymentOutputAction.APPEND_ROW,
        output_file_name="counts.csv",
        retry_settings=BatchRetrySettings(max_retries=1, timeout=60),
        logging_level="info",
    ),
)
done = client.batch_deployments.begin_create_or_update(deployment).result()
assert (done.name, done.endpoint_name) == ("blue", "toy-batch")
assert [one.name for one in client.batch_deployments.list(endpoint_name="toy-batch")] == ["blue"]
seen = client.batch_deployments.get(name="blue", endpoint_name="toy-batch")
assert (seen.name, seen.endpoint_name) == ("blue", "toy-batch")
made = client.batch_endpoints.get("toy-batch")
made.defaults.deployment_name = "blue"
client.batch_endpoints.begin_create_or_update(made).result()
assert client.batch_endpoints.get("toy-batch").defaults.deployment_name == "blue"

job = client.batch_endpoints.invoke(
    endpoint_name="toy-batch", input=Input(type=AssetTypes.URI_FOLDER, path="./data")
)  # fmt: skip
client.jobs.stream(job.name)
assert client.jobs.get(job.name).status == "Completed"
assert job.name in [one.name for one in client.batch_endpoints.list_jobs("toy-batch")]
of_blue = client.batch_deployments.list_jobs(name="blue", endpoint_name="toy-batch")
assert job.name in [one.name for one in of_blue]
client.jobs.download(job.name, download_path="./counted", output_name="score")
rows = [path.read_text() for path in pathlib.Path("counted").rglob("counts.csv")]
assert len(rows) == 1, rows
assert {line.split()[0] for line in rows[0].splitlines()} == {"a.txt", "b.txt"}, rows

client.batch_deployments.begin_delete(name="blue", endpoint_name="toy-batch").result()
client.batch_endpoints.begin_delete(name="toy-batch").result()
assert "toy-batch" not in [one.name for one in client.batch_endpoints.list()]

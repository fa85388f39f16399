"""A pipeline: components by file and by name, settings changed after it was made."""

import pathlib

from azure.ai.ml import Input, dsl, load_component
from connection import connect

client = connect()
prepare = client.components.get("prepare", version="1")
fit = load_component(source="./component.yml")


@dsl.pipeline(compute="cpu-cluster", description="two steps")
def train(data, lr):
    ready = prepare(data=data)
    fitted = fit(data=ready.outputs.ready, lr=lr)
    fitted.outputs.model.mode = "upload"
    fitted.compute = "cpu-cluster"
    return {"model": fitted.outputs.model}


job = train(data=Input(type="uri_folder", path="./data"), lr=0.3)
job.settings.default_compute = "cpu-cluster"
job.settings.force_rerun = True
job.outputs.model.mode = "upload"
job.display_name = "chain"
assert set(job.jobs) == {"ready", "fitted"}
sent = client.jobs.create_or_update(job, experiment_name="scripts")
client.jobs.stream(sent.name)
done = client.jobs.get(sent.name)
assert (done.status, done.display_name) == ("Completed", "chain")
assert len(list(client.jobs.list(parent_job_name=sent.name))) == 2
client.jobs.download(sent.name, download_path="./piped", output_name="model")
assert [path.read_text() for path in pathlib.Path("piped/named-outputs/model").rglob("weights.txt")] == ["0.3\n"]

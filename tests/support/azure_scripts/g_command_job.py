"""A command job: two nodes of two ranks, streamed, listed, brought back."""

import contextlib
import io
import pathlib

from azure.ai.ml import Input, Output, PyTorchDistribution, command
from connection import connect

client = connect()
job = command(
    code="./src",
    command="python train.py --lr ${{inputs.lr}} --data ${{inputs.data}} --model ${{outputs.model}}",
    inputs={"lr": 0.1, "data": Input(type="uri_folder", path="azureml:letters:1")},
    outputs={"model": Output(type="uri_folder")},
    environment="azureml:toy-env:1",
    compute="cpu-cluster",
    instance_count=2,
    distribution=PyTorchDistribution(process_count_per_instance=2),
    display_name="two-by-two",
    experiment_name="scripts",
    tags={"team": "blue"},
)
job.set_limits(timeout=600)
assert client.jobs.validate(job).passed
sent = client.jobs.create_or_update(job)
assert sent.studio_url
printed = io.StringIO()
with contextlib.redirect_stdout(printed):
    client.jobs.stream(sent.name)
assert "Execution Summary" in printed.getvalue()

done = client.jobs.get(sent.name)
assert (done.status, done.display_name, done.experiment_name) == ("Completed", "two-by-two", "scripts")
assert done.tags["team"] == "blue"
assert sent.name in [one.name for one in client.jobs.list()]
client.jobs.download(sent.name, download_path="./brought", all=True)
found = {path.relative_to("brought").as_posix() for path in pathlib.Path("brought").rglob("*") if path.is_file()}
assert {"named-outputs/model/weights.txt", "artifacts/outputs/note.txt"} <= found, found
logs = "".join(path.read_text() for path in pathlib.Path("brought/artifacts/user_logs").iterdir())
assert "rank 0 of 4 lr 0.1" in logs
assert "rank 3 of 4 lr 0.1" in logs
assert "read a.txt b.txt" in logs
client.jobs.download(sent.name, download_path="./only", output_name="model")
assert pathlib.Path("only/named-outputs/model/weights.txt").read_text() == "0.1\n"

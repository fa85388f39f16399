"""A command job of 2 × 2 ranks with a local code folder: submitted, streamed and downloaded."""

import contextlib
import io
import sys
from pathlib import Path

from azure.ai.ml import MLClient, Output, command
from azure.identity import DefaultAzureCredential

code = Path(__file__).with_name("code")
client = MLClient.from_config(DefaultAzureCredential())
job = client.jobs.create_or_update(
    command(
        code=code,
        command="python train.py ${{outputs.model}}",
        compute="cpu-cluster",
        environment="azureml:AzureML-pytorch-for-tests@latest",
        outputs={"model": Output(type="uri_folder")},
        instance_count=2,
        distribution={"type": "pytorch", "process_count_per_instance": 2},
        display_name="first",
        experiment_name="azure-thread",
        tags={"team": "a"},
    )
)
shown = io.StringIO()
with contextlib.redirect_stdout(shown):
    client.jobs.stream(job.name)
assert f"RunId: {job.name}" in shown.getvalue(), shown.getvalue()
job = client.jobs.get(job.name)
assert (job.status, job.display_name, job.tags) == ("Completed", "first", {"team": "a"}), job
client.jobs.download(job.name, download_path="out", all=True)
assert Path("out/named-outputs/model/model.txt").read_text() == "sum 6"
assert Path("out/artifacts/outputs/note.txt").read_text() == "done"
assert Path("out/artifacts/user_logs/std_log_process_00.txt").read_text() == "rank 0 of 4 has 6\n"
sys.stdout.write(job.name)

"""A sweep, its best trial, its trials."""

import pathlib

from azure.ai.ml import command
from azure.ai.ml.sweep import BanditPolicy, Choice
from connection import connect

client = connect()
job = command(
    code="./src", command="python train.py --lr ${{inputs.lr}}", inputs={"lr": 0.1},
    environment="azureml:toy-env:1", compute="cpu-cluster", experiment_name="scripts",
)  # fmt: skip
sweep = job(lr=Choice(values=[0.2, 0.4])).sweep(
    compute="cpu-cluster", sampling_algorithm="grid", primary_metric="accuracy", goal="Maximize",
    early_termination_policy=BanditPolicy(slack_factor=0.5, evaluation_interval=2),
)  # fmt: skip
sweep.set_limits(max_total_trials=2, max_concurrent_trials=2, timeout=600)
sweep.display_name = "two-trials"
sent = client.jobs.create_or_update(sweep)
client.jobs.stream(sent.name)
done = client.jobs.get(sent.name)
assert done.status == "Completed"
best = client.jobs.get(done.properties["best_child_run_id"])
assert best.status == "Completed"
assert len(list(client.jobs.list(parent_job_name=sent.name))) == 2
client.jobs.download(sent.name, download_path="./swept")
assert [path.read_text() for path in pathlib.Path("swept/artifacts").rglob("note.txt")] == ["a note\n"]

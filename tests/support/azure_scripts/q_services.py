"""Services beside a job's ranks: which there are on a node, and how they are."""

import time

from azure.ai.ml import command
from azure.ai.ml.entities import JupyterLabJobService, SshJobService, TensorBoardJobService, VsCodeJobService
from connection import connect

client = connect()
job = command(
    command="sleep 600", environment="azureml:toy-env:1", compute="cpu-cluster", experiment_name="scripts",
    services={
        "board": TensorBoardJobService(log_dir="runs"), "lab": JupyterLabJobService(nodes="all"),
        "code": VsCodeJobService(), "shell": SshJobService(ssh_public_keys="ssh-ed25519 AAAA"),
    },
)  # fmt: skip
sent = client.jobs.create_or_update(job)


def shell():
    return (client.jobs.show_services(sent.name) or {}).get("shell")


ends = time.monotonic() + 120
while not (shell() and shell().status == "Running") and time.monotonic() < ends:
    time.sleep(0.5)
services = client.jobs.show_services(sent.name, node_index=0)
kinds = {name: one.type for name, one in services.items()}
assert kinds == {"board": "TensorBoard", "lab": "JupyterLab", "code": "VSCode", "shell": "SSH"}, kinds
assert services["shell"].status == "Running"
assert services["shell"].endpoint is None
assert services["shell"].properties["command"] == f"drumbeat ssh {sent.name}"
for one in services.values():  # The three others run where their programs are installed.
    assert one.status in ("Running", "NotStarted", "Failed"), one.status
    assert bool(one.error) == (one.status == "Failed"), one.error
assert {"board", "lab", "code", "shell"} <= {*client.jobs.get(sent.name).services}
assert client.jobs.show_services(sent.name, node_index=7) is None

client.jobs.begin_cancel(sent.name).wait()
while client.jobs.get(sent.name).status != "Canceled":
    time.sleep(0.2)
assert client.jobs.show_services(sent.name) is None

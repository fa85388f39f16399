"""Environments: made, listed, found by version and by label, archived and restored; written in a job."""

import pathlib

from azure.ai.ml import command
from azure.ai.ml.constants import ListViewType
from azure.ai.ml.entities import Environment
from connection import connect

client = connect()
made = client.environments.create_or_update(
    Environment(name="scripts-env", version="1", image="python:3.11", description="for the scripts", tags={"a": "b"})
)
assert (made.name, made.version) == ("scripts-env", "1")
assert client.environments.get("scripts-env", version="1").image == "python:3.11"
assert client.environments.get("scripts-env", label="latest").version == "1"
assert "scripts-env" in [one.name for one in client.environments.list()]
assert [one.version for one in client.environments.list(name="scripts-env")] == ["1"]

client.environments.create_or_update(Environment(name="scripts-env", version="2", image="python:3.12"))
client.environments.archive("scripts-env", label="latest")
assert [one.version for one in client.environments.list(name="scripts-env")] == ["1"]
archived = client.environments.list(name="scripts-env", list_view_type=ListViewType.ARCHIVED_ONLY)
assert [one.version for one in archived] == ["2"]
assert client.environments.get("scripts-env", version="2").image == "python:3.12"
assert client.environments.get("scripts-env", label="latest").version == "1"
client.environments.restore("scripts-env", version="2")
assert client.environments.get("scripts-env", label="latest").version == "2"

table = {"channels": ["conda-forge"], "dependencies": ["pip"]}
pathlib.Path("conda.yml").write_text("name: from-a-path\ndependencies: [pip]\n")
for conda_file in ("./conda.yml", table):
    inline = Environment(image="python:3.11", conda_file=conda_file)
    job = command(command="python --version", environment=inline, compute="cpu-cluster", experiment_name="scripts")
    sent = client.jobs.create_or_update(job)
    client.jobs.stream(sent.name)
    done = client.jobs.get(sent.name)
    assert done.status == "Completed"
    written, expected = done.environment, conda_file
    if isinstance(written, str):  # `drumbeat.ml` has the environment as it was written.
        name, version = written.split(":")
        assert name == "CliV2AnonymousEnvironment"
        written = client.environments.get(name, version=version)
        expected = table if conda_file is table else {"name": "from-a-path", "dependencies": ["pip"]}
    assert (written.image, written.conda_file) == ("python:3.11", expected)

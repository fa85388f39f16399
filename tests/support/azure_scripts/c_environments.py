"""Environments: made, listed, found by version and by label, archived and restored."""

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

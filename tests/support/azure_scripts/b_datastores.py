"""Datastores."""

from azure.ai.ml.entities import AccountKeyConfiguration, AzureBlobDatastore
from connection import connect

client = connect()
default = client.datastores.get_default()
assert default.name
assert default.name in [one.name for one in client.datastores.list()]
assert client.datastores.get(default.name).name == default.name
assert (
    AzureBlobDatastore(
        name="blobs",
        account_name="someone",
        container_name="things",
        credentials=AccountKeyConfiguration(account_key="x"),
    ).container_name
    == "things"
)

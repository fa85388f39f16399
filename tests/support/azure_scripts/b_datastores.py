"""Datastores: the default one, and others that are created, given other credentials, and deleted."""

from azure.ai.ml.entities import (
    AccountKeyConfiguration,
    AzureBlobDatastore,
    AzureDataLakeGen2Datastore,
    AzureFileDatastore,
    CertificateConfiguration,
    SasTokenConfiguration,
    ServicePrincipalConfiguration,
)
from connection import connect, refusal

try:
    from azure.core.exceptions import ResourceNotFoundError
except ImportError:
    ResourceNotFoundError = Exception

client = connect()
default = client.datastores.get_default()
assert default.name
assert default.name in [one.name for one in client.datastores.list()]
assert client.datastores.get(default.name).name == default.name

ACCOUNT, SECRET = "someaccount", "bm90IGEga2V5IG9mIGFueSBhY2NvdW50"
blobs = AzureBlobDatastore(
    name="blobs", account_name=ACCOUNT, container_name="things", description="for the scripts", tags={"a": "b"},
    credentials=AccountKeyConfiguration(account_key=SECRET),
)  # fmt: skip
made = client.datastores.create_or_update(blobs)
assert (made.name, made.container_name, made.account_name) == ("blobs", "things", ACCOUNT)
seen = client.datastores.get("blobs")
assert (seen.name, seen.description, seen.tags["a"]) == ("blobs", "for the scripts", "b")

files = AzureFileDatastore(
    name="files", account_name=ACCOUNT, file_share_name="shared",
    credentials=SasTokenConfiguration(sas_token=f"sv=2022-11-02&ss=f&srt=co&sp=r&se=2100-01-01T00:00:00Z&sig={SECRET}"),
)  # fmt: skip
assert client.create_or_update(files).file_share_name == "shared"
lake = AzureDataLakeGen2Datastore(
    name="lake", account_name=ACCOUNT, filesystem="water",
    credentials=ServicePrincipalConfiguration(tenant_id="t", client_id="c", client_secret=SECRET),
)  # fmt: skip
assert client.datastores.create_or_update(lake).filesystem == "water"
public = AzureBlobDatastore(name="public", account_name=ACCOUNT, container_name="open")
assert client.datastores.create_or_update(public).container_name == "open"
assert {default.name, "blobs", "files", "lake", "public"} <= {one.name for one in client.datastores.list()}

# What was sent never comes back.
for name in ("blobs", "files", "lake"):
    seen = client.datastores.get(name, include_secrets=True)
    assert SECRET not in str(vars(seen.credentials)), name
assert SECRET not in str([vars(one.credentials) for one in client.datastores.list(include_secrets=True)])

blobs.credentials = SasTokenConfiguration(
    sas_token=f"sv=2022-11-02&ss=b&srt=co&sp=r&se=2100-01-01T00:00:00Z&sig={SECRET}"
)
blobs.description = "changed"
client.datastores.create_or_update(blobs)
assert client.datastores.get("blobs").description == "changed"

with refusal("was read from this server"):
    client.datastores.create_or_update(client.datastores.get("blobs"))
lake.credentials = CertificateConfiguration(certificate="x", thumbprint="y", tenant_id="t", client_id="c")
with refusal("has a certificate, which drumbeat doesn't take"):
    client.datastores.create_or_update(lake)
with refusal("small letters and digits"):
    client.datastores.create_or_update(AzureBlobDatastore(name="bad", account_name="No Account", container_name="open"))
with refusal("built-in folder"):
    client.datastores.delete(default.name)

for name in ("blobs", "files", "lake", "public"):
    client.datastores.delete(name)
assert not {"blobs", "files", "lake", "public", "bad"} & {one.name for one in client.datastores.list()}
try:
    client.datastores.get("blobs")
except ResourceNotFoundError as error:
    assert "blobs" in str(error)
else:
    raise AssertionError("a datastore that was deleted was found")

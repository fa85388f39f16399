"""The workspace's datastores."""

from __future__ import annotations

from drumbeat.model.api.data import DatastoreView
from drumbeat.model.errors import RefusedError
from drumbeat.model.principal import Role
from drumbeat.server.azure import sas
from drumbeat.server.azure.call import Answer, AzureCall, Table, resource
from drumbeat.server.azure.translation import words
from drumbeat.server.azure.translation.arm_ids import without_nulls
from drumbeat.server.azure.translation.job_answers import system_data
from drumbeat.server.azure.workspaces import SINCE

STORAGE_SUFFIX = "drumbeat.invalid"
ACCOUNT = "/blob/ws#"
"""How the names of accounts end. The client appends a suffix, which the `#` discards: blobs are at this server's own
address.
"""
_TYPES = {"azureblob": "azure_blob", "azurefile": "azure_file", "azuredatalakegen2": "azure_data_lake_gen2"}


def list_datastores(call: AzureCall) -> Answer:
    """Lists the datastores, or the default one."""
    views = call.control.catalogs.datastores.list()
    if str(call.query.get("isDefault", "")).lower() == "true":
        views = [one for one in views if one.is_default]
    return Answer({"value": [_datastore(call, one) for one in views]})


def show_datastore(call: AzureCall) -> Answer:
    """Shows a datastore."""
    return Answer(_datastore(call, call.control.catalogs.datastores.show(call.name("a datastore"))))


def _datastore(call: AzureCall, view: DatastoreView) -> Table:
    """Every kind of datastore is reached by the Blob protocol here: the server passes on what it reads and writes."""
    host = call.base.partition("://")[2]
    properties = {
        "datastoreType": "AzureBlob",
        "accountName": f"{host}{ACCOUNT}",
        "containerName": view.name,
        "endpoint": STORAGE_SUFFIX,
        "protocol": "https",
        "credentials": {"credentialsType": "Sas", "secrets": None},
        "isDefault": view.is_default,
        "description": str(view.document.get("description") or f"drumbeat's datastore {view.name} ({view.type})"),
        "tags": {key: str(value) for key, value in words.mapping(view.document.get("tags")).items()},
        "properties": {},
        "serviceDataAccessAuthIdentity": "None",
        "subscriptionId": call.workspace.subscription,
        "resourceGroup": call.workspace.group,
    }
    return resource(call, f"datastores/{view.name}", properties, system_data(SINCE))


def put_datastore(call: AzureCall) -> Answer:
    """Creates a datastore with its credentials, which are sealed."""
    name, given = call.name("a datastore"), words.snake_keys(call.properties)
    if str(given.get("account_name")).endswith(ACCOUNT):
        what = f"the datastore {name} was read from this server, which gives neither its place nor its credentials back"
        raise RefusedError(what, fix="Create it again, with its account and its credentials.")
    kind = given.get("datastore_type")
    place = {key: given.get(key) for key in ("account_name", "container_name", "filesystem", "file_share_name")}
    endpoint = given.get("endpoint")
    document = without_nulls(
        {
            "name": name,
            "type": _TYPES.get(words.folded(kind), kind),
            **place,
            # The client fills in the suffix of its cloud, which is this server; the account is in Azure's own.
            "endpoint": None if endpoint == STORAGE_SUFFIX else endpoint,
            "protocol": given.get("protocol"),
            "description": given.get("description") or None,
            "tags": given.get("tags") or None,
            "credentials": _credentials(call, name, given.get("credentials")),
        }
    )
    is_checked = str(call.query.get("skipValidation", "")).lower() != "true"
    made, is_new = call.control.catalogs.datastores.create(document, "datastore", check=is_checked)
    echo = {key: value for key, value in call.properties.items() if key != "credentials"}
    kept = {**_datastore(call, made)["properties"], **without_nulls(echo)}
    kept["credentials"] = {"credentialsType": _credentials_type(given.get("credentials")), "secrets": None}
    return Answer(resource(call, f"datastores/{name}", kept, system_data(SINCE)), 201 if is_new else 200)


def _credentials_type(value: object) -> str:
    return str(words.snake_keys(value).get("credentials_type") or "None")


def _credentials(call: AzureCall, name: str, value: object) -> Table | None:
    given = words.snake_keys(value)
    secrets = words.snake_keys(given.get("secrets"))
    match words.folded(given.get("credentials_type", "none")):
        case "accountkey":
            return {"account_key": secrets.get("key")}
        case "sas":
            return {"sas_token": secrets.get("sas_token")}
        case "serviceprincipal":
            authority = str(given.get("authority_url") or "")
            return without_nulls(
                {
                    "tenant_id": given.get("tenant_id"),
                    "client_id": given.get("client_id"),
                    "client_secret": secrets.get("client_secret"),
                    # As the endpoint: the client's own answer is this server.
                    "authority_url": None if authority.startswith(call.base) else authority or None,
                }
            )
        case "none":
            return None
        case "certificate":
            what = f"the datastore {name} has a certificate, which drumbeat doesn't take"
            raise RefusedError(what, fix="Take a service principal with its secret, a SAS token or an account key.")
        case other:
            raise RefusedError(f"drumbeat reads no stores with credentials of type {other[:40]!a}", where=name)


def delete_datastore(call: AzureCall) -> Answer:
    """Deletes a datastore, but not its content."""
    call.control.catalogs.datastores.delete(call.name("a datastore"))
    return Answer(status=200)


def list_secrets(call: AzureCall) -> Answer:
    """Gives a signature of the person who asks, never a key of an account. A reader's is for reading."""
    name = call.name("a datastore")
    store = call.control.catalogs.datastores.show(name).name
    may_write = call.principal.role is not Role.READER
    token = sas.blob_query(call.tokens, store, call.digest, may_write=may_write)
    return Answer({"secretsType": "Sas", "sasToken": token})

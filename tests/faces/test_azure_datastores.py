"""Azure's API on the wire: datastores and their secrets, services of jobs, what there is beside a workspace."""

from __future__ import annotations

from typing import Any

import pytest

from drumbeat.model.errors import NotFoundError
from drumbeat.model.principal import Role
from tests.faces.azure_house import WORKSPACE, azure_house
from tests.faces.test_azure_api import job, refusal

pytestmark = pytest.mark.feature("A1")

SECRET = "bm90IGEga2V5IG9mIGFueSBhY2NvdW50"
SUFFIX = "drumbeat.invalid"
"""What the client fills in for the suffix of its cloud."""
KEY = {"credentialsType": "AccountKey", "secrets": {"secretsType": "AccountKey", "key": SECRET}}
SAS = {"credentialsType": "Sas", "secrets": {"secretsType": "Sas", "sasToken": f"sv=1&sp=r&sig={SECRET}"}}
PRINCIPAL = {
    "credentialsType": "ServicePrincipal", "tenantId": "t", "clientId": "c", "resourceUrl": None,
    "authorityUrl": "https://azure.test:7443/login",
    "secrets": {"secretsType": "ServicePrincipal", "clientSecret": SECRET},
}  # fmt: skip
BLOBS = {"datastoreType": "AzureBlob", "accountName": "someone", "containerName": "things", "endpoint": SUFFIX}
FILES = {"datastoreType": "AzureFile", "accountName": "someone", "fileShareName": "shared", "endpoint": SUFFIX}
LAKE = {"datastoreType": "AzureDataLakeGen2", "accountName": "someone", "filesystem": "water", "endpoint": SUFFIX}
UNCHECKED = {"skipValidation": "true"}
"""As each release of the client sends it."""


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    with azure_house(tmp_path_factory.mktemp("azure")) as there:
        yield there


def put(house: Any, name: str, properties: dict[str, Any], digest: str = "") -> Any:
    return house.ask("PUT", f"datastores/{name}", {"properties": properties}, digest=digest, params=UNCHECKED)


def names(house: Any) -> list[str]:
    return [one["name"] for one in house.ask("GET", "datastores").json()["value"]]


@pytest.mark.parametrize(
    ("name", "properties", "credentials"), [("b", BLOBS, KEY), ("f", FILES, SAS), ("l", LAKE, PRINCIPAL)]
)
def test_datastore_keeps_its_secret_sealed_and_stays_in_azures_own_cloud(house, name, properties, credentials):
    sent = {**properties, "credentials": credentials, "description": "d", "tags": {"a": "b"}}
    made = put(house, name, sent)
    assert (made.status_code, put(house, name, sent).status_code) == (201, 200)
    assert made.json()["properties"]["datastoreType"] == properties["datastoreType"]
    seen = house.ask("GET", f"datastores/{name}")
    assert (seen.json()["properties"]["description"], seen.json()["properties"]["tags"]) == ("d", {"a": "b"})
    answers = (made, seen, house.ask("GET", "datastores"), house.ask("POST", f"datastores/{name}/listSecrets", {}))
    assert not [answer.text for answer in answers if SECRET in answer.text]
    opened = house.control.catalogs.datastores.opened(name)
    assert opened.endpoint == "core.windows.net"
    assert SECRET in str(opened.credentials.opened())
    assert "authority_url" not in opened.credentials.opened()
    assert house.ask("DELETE", f"datastores/{name}").status_code == 200
    assert refusal(house.ask("GET", f"datastores/{name}"))[0] == 404


def test_addresses_that_a_script_names_are_kept(house):
    own = {"endpoint": "https://blobs.example.org", "credentials": {**PRINCIPAL, "authorityUrl": "https://id.example"}}
    assert put(house, "elsewhere", {**BLOBS, **own}).status_code == 201
    opened = house.control.catalogs.datastores.opened("elsewhere")
    assert opened.endpoint == "https://blobs.example.org"
    assert opened.credentials.opened()["authority_url"] == "https://id.example"


@pytest.mark.parametrize(
    ("properties", "part"),
    [
        ({**BLOBS, "datastoreType": "AzureDataLakeGen1"}, "Azure has retired Data Lake gen1"),
        ({**BLOBS, "datastoreType": "OneLake"}, "OneLake isn't supported"),
        ({**BLOBS, "datastoreType": "Hdfs"}, "HDFS isn't supported"),
        ({**BLOBS, "datastoreType": None}, "needs the key `type`"),
        ({**BLOBS, "datastoreType": ["AzureBlob"]}, "a datastore is `azure_blob`"),
        ({**BLOBS, "datastoreType": "folder"}, "path"),
        ({**BLOBS, "accountName": "No Account"}, "3 to 24 small letters and digits"),
        ({**BLOBS, "accountName": "azure.test:7443/blob/ws#"}, "gives neither its place nor its credentials back"),
        ({**BLOBS, "containerName": "../x"}, "container_name"),
        ({**FILES, "fileShareName": None}, "file_share_name"),
        ({**FILES, "credentials": PRINCIPAL}, "credentials"),
        ({**LAKE, "credentials": {"credentialsType": "Certificate"}}, "a certificate, which drumbeat doesn't take"),
        ({**LAKE, "credentials": {"credentialsType": "KerberosKeytab"}}, "credentials of type 'kerberoskeytab'"),
        ({**BLOBS, "credentials": {"credentialsType": "AccountKey"}}, "credentials"),
        ({**BLOBS, "credentials": {"credentialsType": "AccountKey", "secrets": {"key": 7}}}, "account_key"),
        ({**BLOBS, "endpoint": "https://user:word@x"}, "a user or a password in it"),
    ],
)  # fmt: skip
def test_datastore_that_can_not_be_is_refused_with_a_sentence_and_none_is_made(house, properties, part):
    status, message = refusal(put(house, "bad", properties))
    assert status == 400
    assert part in message
    assert "bad" not in names(house)


def test_reader_makes_and_deletes_no_datastore_and_gets_a_signature_for_reading(house):
    reader, contributor = house.person("watcher", Role.READER), house.person("maker", Role.CONTRIBUTOR)
    assert put(house, "made", {**BLOBS, "credentials": KEY}, contributor).status_code == 201
    for answer in (
        put(house, "more", BLOBS, reader),
        put(house, "made", BLOBS, reader),
        house.ask("DELETE", "datastores/made", digest=reader),
    ):
        status, message = refusal(answer)
        assert (status, "readers change nothing" in message) == (403, True)
    assert "more" not in names(house)
    assert house.control.catalogs.datastores.show("made").credentials == "account key"
    secrets = house.ask("POST", "datastores/made/listSecrets", {}, digest=reader).json()
    assert secrets["secretsType"] == "Sas"
    assert "sp=rl" in secrets["sasToken"]


def test_default_datastore_and_one_that_is_not_there_are_not_deleted(house):
    status, message = refusal(house.ask("DELETE", "datastores/workspaceblobstore"))
    assert (status, "built-in folder" in message) == (409, True)
    assert refusal(house.ask("DELETE", "datastores/none"))[0] == 404
    assert refusal(house.ask("POST", "datastores/none/listSecrets", {}))[0] == 404
    with pytest.raises(NotFoundError):
        house.control.catalogs.datastores.show("none")


# --- services --------------------------------------------------------------------------------------------------------
def instances(house: Any, name: str, node: object = 0) -> dict[str, Any]:
    answer = house.http.get(
        f"/history/v1.0{WORKSPACE}/runs/{name}/serviceinstances/{node}", headers=house.bearer()
    )  # fmt: skip
    return answer.json()["instances"]


def test_services_of_a_job_are_shown_on_their_nodes_until_it_ends(house):
    services = {
        "board": {"jobServiceType": "TensorBoard", "properties": {"logDir": "runs"}},
        "lab": {"jobServiceType": "JupyterLab", "nodes": {"nodesValueType": "All"}},
        "shell": {"jobServiceType": "SSH", "properties": {"sshPublicKeys": "ssh-ed25519 A"}},
    }
    assert house.ask("PUT", "jobs/served", job(services=services, resources={"instanceCount": 2})).status_code == 201
    shown = house.ask("GET", "jobs/served").json()["properties"]["services"]
    assert {key: shown[key]["jobServiceType"] for key in services} == {
        "board": "TensorBoard", "lab": "JupyterLab", "shell": "SSH",
    }  # fmt: skip
    assert shown["lab"]["nodes"] == {"nodesValueType": "All"}
    assert shown["shell"]["properties"] == {"sshPublicKeys": "ssh-ed25519 A"}
    here = instances(house, "served")
    assert {key: (one["type"], one["status"], one["error"]) for key, one in here.items()} == {
        "board": ("TensorBoard", "NotStarted", None),
        "lab": ("JupyterLab", "NotStarted", None),
        "shell": ("SSH", "NotStarted", None),
    }
    assert here["board"]["endpoint"].endswith("/ui/jobs/served")
    assert here["shell"]["endpoint"] is None
    assert here["shell"]["properties"] == {"command": "drumbeat ssh served"}
    assert instances(house, "served", 1)["lab"]["properties"] == {"command": "drumbeat open served lab --node 1"}
    assert set(instances(house, "served", 1)) == {"lab"}
    assert instances(house, "served", 2) == instances(house, "served", "x") == {}
    house.control.jobs.cancel("served", "a test")
    house.control.loop.tick()
    assert instances(house, "served") == {}
    answer = house.http.get(f"/history/v1.0{WORKSPACE}/runs/gone/serviceinstances/0", headers=house.bearer())
    assert refusal(answer)[0] == 404


# --- beside a workspace ----------------------------------------------------------------------------------------------
def test_workspaces_are_listed_with_and_without_a_group_and_have_no_keys(house):
    provider = "providers/Microsoft.MachineLearningServices"
    for path in ("/subscriptions/s/resourceGroups/g", "/subscriptions/s/resourcegroups/g", "/subscriptions/s"):
        (one,) = house.http.get(f"{path}/{provider}/workspaces", headers=house.bearer()).json()["value"]
        assert (one["name"], one["properties"]["provisioningState"]) == ("drumbeat", "Succeeded")
    assert set(house.ask("POST", "listKeys").json().values()) == {None}
    for what, part in (("vmSizes", "no sizes of machines"), ("usages", "no quotas of a cloud")):
        path = f"/subscriptions/s/{provider}/locations/local/{what}"
        status, message = refusal(house.http.get(path, headers=house.bearer()))
        assert (status, part in message) == (400, True)
    assert refusal(house.http.get(f"/subscriptions/s/{provider}/workspaces"))[0] == 401

"""Azure's API on the wire: who may do what, what is refused and in which form, and that nothing half made is left."""

from __future__ import annotations

import base64
import hashlib
import json
import uuid
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from drumbeat.client.snapshot import pack
from drumbeat.model.errors import NotFoundError
from drumbeat.model.principal import Role
from drumbeat.server.access.signed_tokens import SignedTokens
from drumbeat.server.azure import sas
from drumbeat.server.azure.app import jwt
from drumbeat.server.jobs.job_filter import JobFilter
from tests.faces.azure_house import TOKEN, WORKSPACE, AzureHouse, azure_house

pytestmark = pytest.mark.feature("A1")

COMMAND: dict[str, Any] = {"jobType": "Command", "command": "true", "computeId": "local", "environmentId": ""}
ANONYMOUS = f"{WORKSPACE}/environments/CliV2AnonymousEnvironment"
LITERAL = {"a": {"jobInputType": "literal", "value": "1"}}


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    with azure_house(tmp_path_factory.mktemp("azure")) as there:
        yield there


def job(**properties: Any) -> dict[str, Any]:
    return {"properties": {**COMMAND, **properties}}


def refusal(answer: Any) -> tuple[int, str]:
    """Status and sentence of a refusal in Azure's form."""
    body = answer.json()
    assert set(body) == {"error"}
    assert set(body["error"]) == {"code", "message"}
    return answer.status_code, body["error"]["message"]


def blob_refusal(answer: Any) -> tuple[int, str]:
    """Status and code of a refusal in the form of Azure's stores."""
    assert answer.headers["x-ms-error-code"] == ET.fromstring(answer.text).findtext("Code")
    return answer.status_code, answer.headers["x-ms-error-code"]


def count(house: AzureHouse) -> int:
    return sum(house.control.store.count_jobs(JobFilter(is_archived=None)).values())


# --- who may come in -------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "given", ["", "Bearer ", "Bearer x", "Bearer a.b.c", "Basic eDp5", "Bearer azure.9999999999..00"]
)
def test_request_without_a_valid_token_is_refused_in_azures_form(house, given):
    answer = house.http.get(f"{WORKSPACE}/jobs", headers={"Authorization": given} if given else {})
    status, message = refusal(answer)
    assert status == 401
    assert 'eval "$(drumbeat azure env)"' in message


def test_token_opens_the_api_in_its_own_form_and_in_that_of_a_jwt_until_it_expires(house):
    now = [1e9]
    tokens = SignedTokens(TOKEN, lambda: now[0])
    token = tokens.new_token("digest", 60)
    assert tokens.read(token.text) == ("digest", token.ends)
    assert tokens.read(token.text.replace("digest", "other")) is None
    now[0] += 61
    assert tokens.read(token.text) is None
    fresh = house.tokens.new_token("", 60)
    for given in (fresh.text, jwt(fresh.text, "https://ml.azure.drumbeat", fresh.ends), TOKEN):
        assert house.http.get(WORKSPACE, headers={"Authorization": f"Bearer {given}"}).status_code == 200


def test_identity_endpoint_gives_a_token_for_the_one_in_its_header_alone(house):
    assert refusal(house.http.get("/identity", params={"resource": "https://x"}))[0] == 401
    token = house.tokens.new_token("", 600)
    headers = {"X-IDENTITY-HEADER": token.text}
    given = house.http.get("/identity", params={"resource": "https://ml.azure.drumbeat"}, headers=headers).json()
    claims = json.loads(base64.urlsafe_b64decode(given["access_token"].split(".")[1] + "=="))
    assert claims["aud"] == "https://ml.azure.drumbeat"
    assert claims["exp"] == int(given["expires_on"]) == token.ends
    answer = house.http.get(f"{WORKSPACE}/jobs", headers={"Authorization": f"Bearer {given['access_token']}"})
    assert answer.status_code == 200


def test_removed_persons_tokens_and_signatures_end(house):
    digest = house.person("leaver", Role.CONTRIBUTOR)
    query = house.sas("workspaceblobstore", digest)
    assert house.ask("GET", "jobs", digest=digest).status_code == 200
    house.control.tokens.remove("leaver")
    house.context.callers.forget()
    assert refusal(house.ask("GET", "jobs", digest=digest))[0] == 401
    assert blob_refusal(house.http.get(f"/blob/ws/workspaceblobstore/a?{query}"))[0] == 403


def test_other_hosts_and_pages_of_other_origins_are_refused(house):
    assert refusal(house.http.get("/metadata/endpoints", headers={"Host": "evil.test"}))[0] == 403
    answer = house.http.get(WORKSPACE, headers={**house.bearer(), "Origin": "https://evil.test"})
    assert refusal(answer)[0] == 403


def test_metadata_and_discovery_need_no_token_and_say_only_addresses(house):
    (cloud,) = house.http.get("/metadata/endpoints").json()
    assert cloud["resourceManager"] == "https://azure.test:7443/"
    assert house.http.get("/discovery").json()["api"] == "https://azure.test:7443"


# --- roles -----------------------------------------------------------------------------------------------------------
def test_reader_reads_and_changes_nothing(house):
    reader = house.person("reader", Role.READER)
    assert house.ask("GET", "jobs", digest=reader).status_code == 200
    before = count(house)
    for method, path, body in (
        ("PUT", "jobs/of-a-reader", job()),
        ("PUT", "environments/e/versions/1", {"properties": {"image": "x"}}),
        ("POST", f"codes/{uuid.uuid4()}/versions/1/startPendingUpload", {}),
        ("DELETE", "datastores/workspaceblobstore", None),
    ):
        assert refusal(house.ask(method, path, body, digest=reader))[0] == 403
    assert count(house) == before
    token = house.ask("POST", "datastores/workspaceblobstore/listSecrets", {}, digest=reader).json()["sasToken"]
    url = f"/blob/ws/workspaceblobstore/by-reader?{token}"
    answer = house.http.put(url, content=b"x", headers={"x-ms-blob-type": "BlockBlob"})
    assert blob_refusal(answer) == (403, "AuthorizationPermissionMismatch")
    forged = house.sas("workspaceblobstore", reader, may_write=True)
    answer = house.http.put(f"/blob/ws/workspaceblobstore/x?{forged}", content=b"x", headers=BLOCK)
    assert blob_refusal(answer) == (403, "AuthorizationPermissionMismatch")


def test_contributor_changes_own_jobs_only(house):
    ada, bob = house.person("ada", Role.CONTRIBUTOR), house.person("bob", Role.CONTRIBUTOR)
    assert house.ask("PUT", "jobs/adas", job(), digest=ada).status_code == 201
    assert house.control.store.load("adas").job.user == "ada"
    history = f"/history/v1.0{WORKSPACE}/experiments/e/runs/adas"
    for method, path, body in (
        ("POST", f"{WORKSPACE}/jobs/adas/cancel", None),
        ("PUT", f"{WORKSPACE.replace('resourceGroups', 'resourcegroups')}/jobs/adas", job(command="other")),
        ("DELETE", f"{WORKSPACE}/jobs/adas", None),
        ("PATCH", history, {"hidden": True}),
    ):
        answer = house.http.request(method, path, headers=house.bearer(bob), json=body)
        assert refusal(answer)[0] == 403, path
    assert house.http.patch(history, headers=house.bearer(ada), json={"displayName": "mine"}).status_code == 200
    assert house.ask("GET", "jobs/adas").json()["properties"]["displayName"] == "mine"


# --- jobs ------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("body", "part"),
    [
        ({}, "runs no jobs of type 'None'"),
        ({"properties": {"jobType": "AutoML"}}, "runs no jobs of type 'AutoML'"),
        ({"properties": {"jobType": "Spark"}}, "Send a command, a sweep or a pipeline."),
        ({"properties": []}, "expected an object"),
        (job(command=None), "command"),
        (job(inputs={"a": {"jobInputType": "uri_folder"}}), "has no address"),
        (job(inputs={"a": 3}), "expected an object"),
        (job(limits={"timeout": "five minutes"}), "isn't a duration"),
        (job(codeId="https://example.org/code.git"), "isn't on this server"),
        (job(codeId=f"{WORKSPACE}/codes/{uuid.UUID(int=1)}/versions/1"), "there is no code"),
        (job(environmentId=f"{ANONYMOUS}/versions/9"), "there is no environment"),
        (job(computeId="gpu-cluster"), "drumbeat alias set compute gpu-cluster"),
        (job(distribution={"distributionType": "Mystery"}), "distribution"),
        (job(resources={"instanceCount": 0}), "instance_count"),
    ],
)  # fmt: skip
def test_bad_job_is_refused_with_a_sentence_and_none_is_made(house, body, part):
    before = count(house)
    status, message = refusal(house.ask("PUT", "jobs/bad", body))
    assert 400 <= status < 500
    assert part in message
    assert count(house) == before


@pytest.mark.parametrize(
    "content", [b"{", b"[]", b"\xff\xfe", b'"x"', b"[" * 100_000], ids=["cut", "list", "no utf-8", "text", "deep"]
)
def test_body_that_is_no_json_object_is_refused(house, content):
    answer = house.http.put(f"{WORKSPACE}/jobs/bad", headers=house.bearer(), content=content)
    assert refusal(answer)[0] == 400


def test_job_sent_twice_is_one_and_with_other_content_a_conflict(house):
    assert house.ask("PUT", "jobs/twice", job(inputs=LITERAL)).status_code == 201
    assert house.ask("PUT", "jobs/twice", job(inputs=LITERAL)).status_code == 200
    status, message = refusal(house.ask("PUT", "jobs/twice", job(command="false")))
    assert (status, "exists already with other content" in message) == (409, True)
    assert house.control.store.load("twice").spec["command"] == "true"


def test_job_that_was_read_is_edited_by_sending_it_back(house):
    house.ask("PUT", "jobs/edited", job(tags={"a": "1"}))
    body = house.ask("GET", "jobs/edited").json()
    body["properties"] |= {"tags": {"b": "2"}, "displayName": "new", "command": "rm -rf /"}
    answer = house.ask("PUT", "jobs/edited", body).json()["properties"]
    assert (answer["tags"], answer["displayName"], answer["command"]) == ({"b": "2"}, "new", "true")
    body["properties"] |= {"isArchived": True, "displayName": "newer"}  # Only jobs that have ended are archived.
    assert refusal(house.ask("PUT", "jobs/edited", body))[0] == 409
    assert house.ask("GET", "jobs/edited").json()["properties"]["displayName"] == "new"


def test_pipeline_whose_component_is_gone_is_refused_whole(house):
    gone = f"{WORKSPACE}/components/azureml_anonymous/versions/{uuid.uuid4()}"
    node = {"name": "a", "type": "command", "componentId": gone, "inputs": {}, "outputs": {}}
    before = count(house)
    status, message = refusal(
        house.ask("PUT", "jobs/piped", {"properties": {"jobType": "Pipeline", "jobs": {"a": node}}})
    )
    assert (status, "isn't on this server" in message) == (404, True)
    assert count(house) == before


def test_jobs_are_listed_in_pages_that_follow_one_another(tmp_path):
    with azure_house(tmp_path) as house:
        for number in range(103):
            house.ask("PUT", f"jobs/j{number}", job())
        first = house.ask("GET", "jobs").json()
        second = house.http.get(first["nextLink"], headers=house.bearer()).json()
        names = [one["name"] for page in (first, second) for one in page["value"]]
        assert names == [f"j{number}" for number in reversed(range(103))]
        assert "nextLink" not in second


def test_log_is_read_by_its_signature_alone(house):
    house.ask("PUT", "jobs/logged", job())
    path = sas.log_path(house.tokens, "logged", "user_logs/std_log.txt")
    assert refusal(house.http.get(path))[0] == 404  # It is let in, and there is no log yet.
    for wrong in (path[:-1] + "g", path.replace("logged", "twice"), path.split("?")[0], path.replace("se=", "se=1")):
        assert refusal(house.http.get(wrong))[0] == 403


# --- names -----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ["%2e%2e", "a%00b", "a%2fb", "%C3%A4", "a%0Ab", "x" * 300, ".hidden"])
@pytest.mark.parametrize("kind", ["jobs", "computes", "datastores"])
def test_hostile_names_are_refused(house, kind, name):
    answer = house.http.get(f"{WORKSPACE}/{kind}/{name}", headers=house.bearer())
    assert refusal(answer)[0] in (400, 404)


def test_what_isnt_there_and_what_drumbeat_doesnt_do_are_told_apart(house):
    assert refusal(house.ask("GET", "jobs/none"))[0] == 404
    assert refusal(house.ask("PUT", "serverlessEndpoints/e", {}))[0] == 400
    assert "that a cloud runs" in refusal(house.ask("PUT", "serverlessEndpoints/e", {}))[1]
    assert "no route" in refusal(house.ask("PUT", "wonders/w", {}))[1]


def test_cluster_that_a_script_creates_becomes_an_alias_and_other_kinds_are_refused(house):
    instance = {"properties": {"computeType": "ComputeInstance"}}
    assert "drumbeat alias set compute box local" in refusal(house.ask("PUT", "computes/box", instance))[1]
    assert refusal(house.ask("GET", "computes/gpus"))[0] == 404
    made = house.ask("PUT", "computes/gpus", {"properties": {"computeType": "AmlCompute"}})
    assert (made.status_code, made.json()["name"]) == (201, "gpus")
    done = house.http.get(made.headers["Azure-AsyncOperation"], headers=house.bearer())
    assert done.json()["status"] == "Succeeded"
    assert house.ask("GET", "computes/gpus").json()["properties"]["provisioningState"] == "Succeeded"
    assert house.ask("DELETE", "computes/gpus").status_code == 200
    assert refusal(house.ask("GET", "computes/gpus"))[0] == 404


# --- blobs -----------------------------------------------------------------------------------------------------------
BLOCK = {"x-ms-blob-type": "BlockBlob"}


def test_wrong_expired_and_foreign_signatures_open_nothing(house):
    house.blob("PUT", "kept", content=b"secret", headers=BLOCK)
    good = house.sas("workspaceblobstore")
    now = [house.tokens.now() - sas.LIFE_S - 60]
    past = sas.blob_query(SignedTokens(TOKEN, lambda: now[0]), "workspaceblobstore", "", may_write=True)
    wrong = ("", good[:-1] + "x", good.replace("sp=racwl", "sp=racwdl"), good.replace("se=", "se=3"), past)
    foreign = (good.replace("skoid=home", "skoid=x"), house.sas("workspaceartifactstore"), f"{good}&{good}")
    for query in (*wrong, *foreign):
        assert blob_refusal(house.http.get(f"/blob/ws/workspaceblobstore/kept?{query}"))[0] == 403
    assert house.http.head(f"/blob/ws/workspaceblobstore/kept?{past}").status_code == 403


@pytest.mark.parametrize("name", ["..%2Fx", "a/../../x", "%2e%2e/x", "a%00b", "a//b", "%2e/a"])
def test_names_that_lead_out_of_a_container_are_refused(house, name):
    path = f"/blob/ws/workspaceblobstore/{name}?{house.sas('workspaceblobstore')}"
    request = house.http.build_request("PUT", "/", content=b"x", headers=BLOCK)
    request.url = request.url.copy_with(raw_path=path.encode())
    assert house.http.send(request).status_code in (400, 403, 404)
    assert {one.name for one in (house.folder / "stores").iterdir()} == {"workspaceblobstore", "workspaceartifactstore"}


def test_blob_is_written_once_read_in_ranges_and_keeps_its_metadata_while_its_content_stays(house):
    content = bytes(range(256)) * 16
    made = house.blob("PUT", "a/b c#%.bin".replace("#", "%23").replace("%.", "%25."), content=content,
                      headers={**BLOCK, "If-None-Match": "*"})  # fmt: skip
    assert made.status_code == 201
    path = "a/b%20c%23%25.bin"
    again = house.blob("PUT", path, content=b"x", headers={**BLOCK, "If-None-Match": "*"})
    assert blob_refusal(again) == (409, "BlobAlreadyExists")
    assert house.blob("PUT", path, "comp=metadata", headers={"x-ms-meta-upload_status": "completed"}).status_code == 200
    head = house.blob("HEAD", path)
    assert (head.headers["Content-Length"], head.headers["x-ms-meta-upload_status"]) == ("4096", "completed")
    part = house.blob("GET", path, headers={"x-ms-range": "bytes=10-19"})
    assert (part.status_code, part.content) == (206, content[10:20])
    assert part.headers["Content-Range"] == "bytes 10-19/4096"
    assert part.headers["ETag"] == made.headers["ETag"]
    stale = house.blob("GET", path, headers={"If-Match": '"0x1"'})
    assert blob_refusal(stale) == (412, "ConditionNotMet")
    house.blob("PUT", path, content=b"other", headers=BLOCK)
    assert "x-ms-meta-upload_status" not in house.blob("HEAD", path).headers


def test_empty_blob_has_no_range(house):
    house.blob("PUT", "empty", content=b"", headers={**BLOCK, "Content-Length": "0"})
    assert blob_refusal(house.blob("GET", "empty", headers={"x-ms-range": "bytes=0-9"})) == (416, "InvalidRange")
    assert house.blob("GET", "empty").content == b""


def test_blocks_become_a_blob_in_the_order_of_their_list(house):
    for block, content in (("QQ==", b"a" * 70_000), ("Qg==", b"b" * 5), ("Qw==", b"unused")):
        assert house.blob("PUT", "big", f"comp=block&blockid={block}", content=content).status_code == 201
    assert house.blob("GET", "big").status_code == 404
    listing = "<BlockList><Latest>Qg==</Latest><Latest>QQ==</Latest></BlockList>"
    assert house.blob("PUT", "big", "comp=blocklist", content=listing.encode()).status_code == 201
    assert house.blob("GET", "big").content == b"b" * 5 + b"a" * 70_000
    assert list((house.folder / "azure" / "blocks").iterdir()) == []


@pytest.mark.parametrize(
    "listing",
    [
        b"<BlockList><Latest>bm9uZQ==</Latest></BlockList>", b"<BlockList", b"", b"<Other/>",
        b'<!DOCTYPE x [<!ENTITY a "b">]><BlockList><Latest>&a;</Latest></BlockList>',
        b"<BlockList><Old>a</Old></BlockList>",
    ],
)  # fmt: skip
def test_list_of_blocks_that_arent_there_or_no_list_makes_nothing(house, listing):
    assert blob_refusal(house.blob("PUT", "never", "comp=blocklist", content=listing))[0] == 400
    assert blob_refusal(house.blob("GET", "never"))[0] == 404


def test_body_shorter_than_announced_makes_nothing(house):
    answer = house.blob("PUT", "short", content=b"abc", headers={**BLOCK, "Content-Length": "5"})
    assert blob_refusal(answer)[0] == 400
    assert blob_refusal(house.blob("GET", "short"))[0] == 404


def test_blobs_are_listed_in_pages_and_by_folder(house):
    for number in range(5):
        house.blob("PUT", f"tree/{number}/f", content=b"x", headers=BLOCK)
    house.blob("PUT", "tree/g", content=b"x", headers=BLOCK)

    def listed(query: str) -> tuple[list[str], str]:
        root = ET.fromstring(house.blob("GET", "", f"restype=container&comp=list&{query}").text)
        return [one.text or "" for one in root.iter("Name")], root.findtext("NextMarker") or ""

    names, marker = listed("prefix=tree/&maxresults=4")
    rest, end = listed(f"prefix=tree/&maxresults=4&marker={marker}")
    assert [*names, *rest] == [*(f"tree/{number}/f" for number in range(5)), "tree/g"]
    assert end == ""
    assert listed("prefix=tree/&delimiter=/")[0] == [*(f"tree/{number}/" for number in range(5)), "tree/g"]
    assert listed("prefix=tree/1")[0] == ["tree/1/f"]
    assert listed("prefix=nothing/here")[0] == []


# --- code ------------------------------------------------------------------------------------------------------------
def upload_code(house: AzureHouse, files: dict[str, bytes], content_hash: str) -> tuple[str, Any]:
    name = str(uuid.uuid4())
    path = f"codes/{name}/versions/1"
    upload = house.ask("POST", f"{path}/startPendingUpload", {"pendingUploadType": "TemporaryBlobReference"}).json()
    reference = upload["blobReferenceForConsumption"]
    url, query = reference["credential"]["sasUri"].split("?")
    for file, content in files.items():
        assert house.http.put(f"{url}/src/{file}?{query}", content=content, headers=BLOCK).status_code == 201
    properties = {"hash_sha256": content_hash, "hash_version": "202208"}
    body = {"properties": {"codeUri": f"{reference['blobUri']}/src", "properties": properties}}
    return name, house.ask("PUT", path, body)


def test_uploaded_code_is_the_snapshot_that_drumbeats_own_client_makes_and_is_known_by_its_hash(house, tmp_path):
    files = {"train.py": b"print(1)\n", "run.sh": b"#!/bin/sh\n", "pkg/a b.py": b""}
    for file, content in files.items():
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).write_bytes(content)
    (tmp_path / "run.sh").chmod(0o755)
    content_hash = hashlib.sha256(b"what the client counts").hexdigest()
    query = {"hash": content_hash, "hashVersion": "202208"}
    assert house.ask("GET", f"codes/{uuid.uuid4()}/versions", params=query).json() == {"value": []}
    name, answer = upload_code(house, files, content_hash)
    assert answer.status_code == 201, answer.text
    packed = pack(tmp_path, "code")
    packed.file.close()
    assert house.control.store.resource("azure-code", name).document["digest"] == packed.digest
    assert house.control.artifacts.has_snapshot(packed.digest)
    (seen,) = house.ask("GET", f"codes/{uuid.uuid4()}/versions", params=query).json()["value"]
    assert seen["id"].endswith(f"/codes/{name}/versions/1")
    assert list((house.folder / "azure" / "code").iterdir()) == []


def test_code_of_another_place_and_one_that_wasnt_uploaded_are_refused(house):
    path = f"codes/{uuid.uuid4()}/versions/1"
    here = "https://azure.test:7443/blob/ws"
    for uri in ("", "https://elsewhere/x", f"{here}/workspaceblobstore/a", f"{here}/code-{uuid.uuid4()}/src",
                f"{here}/code-00000000/../../x"):  # fmt: skip
        assert refusal(house.ask("PUT", path, {"properties": {"codeUri": uri}}))[0] in (400, 404)
    with pytest.raises(NotFoundError):
        house.control.store.resource("azure-code", path.split("/")[1])


def test_environment_written_in_a_job_is_found_by_what_the_job_shows_and_can_be_sent_again(house):
    sent = {"image": "python:3.11", "condaFile": "dependencies:\n- pip\n", "isAnonymous": True}
    path = "environments/CliV2AnonymousEnvironment/versions"
    assert house.ask("PUT", f"{path}/of-client", {"properties": sent}).status_code == 201
    house.ask("PUT", "jobs/written", job(environmentId=f"{ANONYMOUS}/versions/of-client"))
    shown = house.ask("GET", "jobs/written").json()["properties"]["environmentId"]
    kept = house.ask("GET", shown.removeprefix(f"{WORKSPACE}/")).json()
    assert (kept["id"], kept["properties"]["condaFile"]) == (shown, sent["condaFile"])
    assert house.ask("PUT", "jobs/again", job(environmentId=shown)).status_code == 201
    assert house.ask("GET", "jobs/again").json()["properties"]["environmentId"] == shown
    listed = house.ask("GET", path).json()["value"]
    assert [one["name"] for one in listed] == ["of-client"]

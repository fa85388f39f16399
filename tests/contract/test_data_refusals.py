"""What real stores refuse, in our words: the store, what was asked, what to do, and no secret."""

from __future__ import annotations

import contextlib
import hashlib
import os
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from drumbeat.client.connection import TIMEOUT
from drumbeat.jobfile.data.datastores import (
    AzureFileDatastore,
    Datastore,
    FolderDatastore,
    HttpDatastore,
    SftpDatastore,
    datastore_from,
)
from drumbeat.model.errors import (
    ConflictError,
    DrumbeatError,
    ForbiddenError,
    NoConnectionError,
    NotFoundError,
    RefusedError,
    UnknownNameError,
    UnreachableError,
)
from drumbeat.model.input_listing import ListedFile
from drumbeat.server.data.stores import StoreAccess
from drumbeat.server.data.stores.azure import AzureBackend
from drumbeat.server.data.stores.backend_contract import StoreTimeouts, Wanted
from tests.real.store_servers import (
    Azurite,
    S3Server,
    Sshd,
    WebServer,
    a_web_server,
    azurite,
    s3_server,
    sshd,
    web_server,
)

__all__ = ["azurite", "s3_server", "sshd", "web_server"]

pytestmark = [pytest.mark.feature("D1"), pytest.mark.xdist_group("stores")]

HERE = "azureml://datastores/here/paths/"
NOW = datetime.now(UTC)


@contextlib.contextmanager
def over(datastore: Datastore) -> Iterator[StoreAccess]:
    access = StoreAccess(lambda: {"here": datastore})
    try:
        yield access
    finally:
        access.close()


def refusal(datastore: Datastore, kind: type[DrumbeatError], verb: str = "list") -> str:
    """What is said when a datastore is listed, read, written or removed from; always with its name and advice."""
    with over(datastore) as access:
        asks: dict[str, Callable[[], object]] = {
            "list": lambda: access.listing(HERE, is_file=False),
            "read": lambda: access.listing(f"{HERE}a/f", is_file=True),
            "write": lambda: access.write(HERE, "a/f", [b"1"], 1),
            "remove": lambda: access.remove(HERE, "a/f"),
        }
        with pytest.raises(kind) as refused:
            asks[verb]()
    assert type(refused.value) is kind
    assert refused.value.where == "datastore `here`"
    assert refused.value.fix
    assert refused.value.__cause__ is None
    assert "sig=" not in str(refused.value)
    return str(refused.value)


def status_of(url: str) -> int:
    try:
        with urllib.request.urlopen(url, timeout=30) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        error.close()
        return error.code


# --- Azure ------------------------------------------------------------------------------------------------------
def token(
    azurite: Azurite, container: str, allowed: str = "rl", *, key: str = "", hours: float = 1, wait: float = 0
) -> str:
    from azure.storage.blob import generate_container_sas

    return generate_container_sas(
        azurite.account, container, key or azurite.key, permission=allowed,
        start=NOW + timedelta(hours=wait) if wait else None, expiry=NOW + timedelta(hours=hours),
    )  # fmt: skip


@pytest.fixture
def container(azurite: Azurite) -> str:
    name = azurite.container()
    with azurite.service() as service:
        service.get_container_client(name).upload_blob("a/f", b"hello")
    return name


def test_a_sas_token_that_has_expired(azurite: Azurite, container: str) -> None:
    old = token(azurite, container, hours=-1)
    said = refusal(azurite.datastore("here", container, sas_token=old), ForbiddenError)
    assert "can't be listed: the SAS token expired at" in said
    assert "Create a new token" in said
    assert old not in said


def test_a_sas_token_that_isnt_valid_yet(azurite: Azurite, container: str) -> None:
    early = token(azurite, container, hours=3, wait=2)
    said = refusal(azurite.datastore("here", container, sas_token=early), ForbiddenError)
    assert "isn't valid before" in said


@pytest.mark.parametrize(
    ("allowed", "verb", "says"),
    [
        ("r", "list", "allows to read, not to list"),
        ("l", "read", "allows to list, not to read"),
        ("rl", "write", "allows to read, list, not to write"),
        ("rlw", "remove", "allows to read, list, write, not to delete"),
    ],
)
def test_a_sas_token_that_doesnt_allow_it(azurite: Azurite, container: str, allowed: str, verb: str, says: str) -> None:
    assert says in refusal(
        azurite.datastore("here", container, sas_token=token(azurite, container, allowed)), ForbiddenError, verb
    )


def test_a_sas_token_for_another_container(azurite: Azurite, container: str) -> None:
    other = token(azurite, azurite.container())
    said = refusal(azurite.datastore("here", container, sas_token=other), ForbiddenError)
    assert "the SAS token isn't for this container" in said


def test_a_sas_token_signed_with_another_key(azurite: Azurite, container: str) -> None:
    forged = token(azurite, container, key="QUFBQQ==")
    said = refusal(azurite.datastore("here", container, sas_token=forged), ForbiddenError)
    assert "signed with an old key of the account" in said


def test_an_account_key_that_is_wrong(azurite: Azurite, container: str) -> None:
    said = refusal(azurite.datastore("here", container, account_key="QUFBQQ=="), ForbiddenError)
    assert "the account key isn't one of this account's" in said
    assert "QUFB" not in said


def test_a_container_that_isnt_there_and_one_that_isnt_public(azurite: Azurite, container: str) -> None:
    assert "there is no such container" in refusal(azurite.datastore("here", "nope"), NotFoundError)
    there = azurite.datastore("here", container).model_copy(update={"credentials": "none"})
    refusal(there, ForbiddenError)


def test_an_account_that_nobody_answers_for(azurite: Azurite) -> None:
    there = azurite.datastore("here", "data").model_copy(update={"endpoint": f"http://127.0.0.1:{closed_port()}"})
    assert f"no answer from {there.endpoint}" in refusal(there, NoConnectionError)


@pytest.mark.feature("X2")
def test_a_link_is_for_one_blob_for_reading_and_for_a_while(azurite: Azurite, container: str) -> None:
    spec = azurite.datastore("here", container)
    backend = AzureBackend(spec, "", StoreTimeouts())
    link = backend.link(Wanted("a/f"), 600)
    assert link
    assert {"sp=r", "sr=b"} <= set(link.url.partition("?")[2].split("&"))
    assert status_of(link.url) == 200
    assert status_of(link.url.replace("/a/f?", "/a/g?")) == 403
    past = AzureBackend(spec, "", StoreTimeouts(), lambda: NOW - timedelta(hours=2)).link(Wanted("a/f"), 600)
    assert past
    assert status_of(past.url) == 403
    backend.close()


def test_an_address_with_its_own_signature(azurite: Azurite, container: str) -> None:
    own = token(azurite, container)
    address = f"{azurite.endpoint}/{azurite.account}/{container}"
    access = StoreAccess(lambda: {"other": azurite.datastore("other", "another-container")})
    (file,) = access.listing(f"{address}/a?{own}", is_file=False).files
    assert b"".join(access.read(f"{address}/a?{own}", file)) == b"hello"
    assert access.links(f"{address}/a?{own}", [file], 60) == [None]
    assert own not in repr(file)
    with pytest.raises(ForbiddenError, match="expired") as refused:
        access.listing(f"{address}/a?{token(azurite, container, hours=-1)}", is_file=False)
    assert "sig=" not in str(refused.value)
    access.close()


def test_an_address_takes_the_credentials_of_its_datastore(azurite: Azurite, container: str) -> None:
    with over(azurite.datastore("here", container)) as access:
        address = f"{azurite.endpoint}/{azurite.account}/{container}/a"
        assert [one.path for one in access.listing(address, is_file=False).files] == ["f"]
        spark = f"wasbs://{container}@{azurite.account}.blob.core.windows.net/a"
        assert [one.path for one in access.listing(spark, is_file=False).files] == ["f"]


def test_folders_of_data_lake_arent_files_and_its_own_hash_is_told(azurite: Azurite, container: str) -> None:
    with azurite.service() as service:
        client = service.get_container_client(container)
        client.upload_blob("a/folder", b"", metadata={"hdi_isfolder": "true"})
        client.upload_blob("a/f/", b"")
    with over(azurite.datastore("here", container)) as access:
        (file,) = access.listing(f"{HERE}a", is_file=False).files
        assert (file.path, file.sha256) == ("f", "")
        done = access.write(HERE, "a/f", [b"mine"], 4)
        (file,) = access.listing(f"{HERE}a", is_file=False).files
        assert file.sha256 == file.key == done.sha256


def test_a_folder_of_data_lake_isnt_a_file(azurite: Azurite, container: str) -> None:
    with azurite.service() as service:
        service.get_container_client(container).upload_blob("empty", b"", metadata={"hdi_isfolder": "true"})
    with over(azurite.datastore("here", container)) as access, pytest.raises(NotFoundError, match="nothing there"):
        access.listing(f"{HERE}empty", is_file=True)


def test_a_service_principal_that_nobody_vouches_for(azurite: Azurite) -> None:
    held = {"tenant_id": "t", "client_id": "c", "client_secret": "S3CRET"}
    with over(azurite.datastore("here", "data", **held)) as access, pytest.raises(RefusedError, match="needs `https`"):
        access.listing(HERE, is_file=False)


def test_names_that_no_node_can_have_are_refused(azurite: Azurite, container: str) -> None:
    with azurite.service() as service:
        service.get_container_client(container).upload_blob("a/f/g", b"1")
    with over(azurite.datastore("here", container)) as access:
        with pytest.raises(RefusedError, match="`f` is a file, and there are files below it"):
            access.listing(f"{HERE}a", is_file=False)
        with azurite.service() as service:
            service.get_container_client(container).upload_blob(f"b/{'n' * 300}", b"1")
        with pytest.raises(RefusedError, match="can't be the name of a file on a node"):
            access.listing(f"{HERE}b", is_file=False)


# --- S3 ---------------------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def bucket(s3_server: S3Server) -> str:
    name = s3_server.bucket()
    s3_server.client().put_object(Bucket=name, Key="a/f", Body=b"hello")
    return name


def test_an_s3_key_that_is_wrong(s3_server: S3Server, bucket: str) -> None:
    wrong = {"access_key_id": s3_server.key_id, "secret_access_key": "WRONG" * 4}
    said = refusal(s3_server.datastore("here", bucket, **wrong), ForbiddenError)
    assert "the secret key is wrong" in said
    assert "WRONG" not in said
    nobody = {"access_key_id": "nobody", "secret_access_key": "x"}
    assert "there is no such access key" in refusal(s3_server.datastore("here", bucket, **nobody), ForbiddenError)


def test_an_s3_key_that_may_only_read(s3_server: S3Server, bucket: str) -> None:
    reader = {"access_key_id": s3_server.reader[0], "secret_access_key": s3_server.reader[1]}
    there = s3_server.datastore("here", bucket, **reader)
    for verb in ("write", "remove"):
        assert "don't have the right" in refusal(there, ForbiddenError, verb)
    with over(there) as access:
        assert access.listing(f"{HERE}a", is_file=False).size == 5


def test_a_bucket_that_isnt_there_and_one_without_credentials(s3_server: S3Server, bucket: str) -> None:
    assert "there is no such bucket" in refusal(s3_server.datastore("here", "nope"), NotFoundError)
    refusal(s3_server.datastore("here", bucket).model_copy(update={"credentials": "none"}), ForbiddenError)


def test_an_s3_server_that_doesnt_answer(s3_server: S3Server) -> None:
    there = s3_server.datastore("here", "data").model_copy(update={"endpoint": f"http://127.0.0.1:{closed_port()}"})
    assert "no answer from http://127.0.0.1" in refusal(there, NoConnectionError)


def test_an_s3_environment_without_credentials(
    s3_server: S3Server, bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    there = s3_server.datastore("here", bucket).model_copy(update={"credentials": "environment"})
    assert "the server's environment has no credentials" in refusal(there, ForbiddenError)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", s3_server.key_id)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", s3_server.key)
    with over(there) as access:
        assert access.listing(f"s3://{bucket}/a", is_file=False).size == 5


# --- SFTP -------------------------------------------------------------------------------------------------------
def test_an_ssh_server_that_isnt_the_known_one(sshd: Sshd) -> None:
    assert "host key isn't known" in refusal(sshd.datastore("here", sshd.folder, known_hosts=""), ForbiddenError)
    other = f"[127.0.0.1]:{sshd.port} ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI{'A' * 43}"
    said = refusal(sshd.datastore("here", sshd.folder, known_hosts=other), ForbiddenError)
    assert "host key differs from `known_hosts`" in said


def test_an_ssh_key_that_isnt_let_in_or_cant_be_read(sshd: Sshd, tmp_path: Path) -> None:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / "k")], check=True)
    stranger = {"private_key": (tmp_path / "k").read_text()}
    said = refusal(sshd.datastore("here", sshd.folder, credentials=stranger), ForbiddenError)
    assert f"refuses user `{sshd.user}`" in said
    said = refusal(sshd.datastore("here", sshd.folder, credentials={"private_key": "rubbish"}), ForbiddenError)
    assert "the private key can't be read" in said
    refusal(sshd.datastore("here", sshd.folder, credentials={"password": "no"}), ForbiddenError)


def test_an_ssh_server_that_doesnt_answer() -> None:
    there = SftpDatastore(name="here", host="127.0.0.1", port=closed_port(), user="me", path="/", known_hosts="")
    assert "no answer from 127.0.0.1" in refusal(there, NoConnectionError)


def test_a_folder_over_ssh_that_isnt_there(sshd: Sshd) -> None:
    assert "there is nothing there" in refusal(sshd.datastore("here", sshd.folder / "nope"), NotFoundError)


def test_connection_over_ssh_is_kept_when_there_is_nothing_or_no_right(sshd: Sshd) -> None:
    logins = lambda: (sshd.folder.parent / "log").read_text().count("Accepted publickey")  # noqa: E731
    (sshd.folder / "elsewhere").symlink_to("/")
    with over(sshd.datastore("here", sshd.folder)) as access:
        before = logins()
        for _ in range(3):
            with pytest.raises(NotFoundError, match="there is nothing there"):
                access.listing(f"{HERE}nope", is_file=False)
            with pytest.raises(ForbiddenError, match="leaves the folder"):
                access.entries(f"{HERE}elsewhere")
        assert logins() == before + 1
    (sshd.folder / "elsewhere").unlink()


# --- folders, and links out of them -----------------------------------------------------------------------------
@pytest.mark.parametrize("kind", ["folder", "sftp"])
def test_links_that_leave_the_folder_are_refused(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    there = tmp_path / "in"
    (there / "a").mkdir(parents=True)
    (tmp_path / "secret").write_text("secret")
    (there / "a" / "out").symlink_to(tmp_path / "secret")
    if kind == "folder":
        spec: Datastore = FolderDatastore(name="here", path=str(there))
    else:
        spec = request.getfixturevalue("sshd").datastore("here", there)
    with over(spec) as access:
        for ask in (
            lambda: access.listing(HERE, is_file=False),
            lambda: access.listing(f"{HERE}a/out", is_file=True),
            lambda: list(access.read(HERE, ListedFile("a/out", 6, "k", tag="1"))),
            lambda: access.write(HERE, "a/out", [b"x"], 1),
        ):
            with pytest.raises(ForbiddenError, match="leaves the folder"):
                ask()
        (there / "a" / "way").symlink_to(tmp_path)
        with pytest.raises(ForbiddenError, match="leaves the folder"):
            access.write(HERE, "a/way/new/folder/f", [b"x"], 1)
        assert not (tmp_path / "new").exists()
        (there / "a" / "way").unlink()
        (there / "a" / "out").unlink()
        (there / "f").write_text("inside")
        (there / "a" / "in").symlink_to(there / "f")
        assert [one.path for one in access.listing(HERE, is_file=False).files] == ["a/in", "f"]
        (there / "a" / "round").symlink_to(there)
        with pytest.raises(RefusedError, match="it is a link to a folder"):
            access.listing(HERE, is_file=False)
    assert (tmp_path / "secret").read_text() == "secret"


@pytest.mark.parametrize("kind", ["folder", "sftp"])
@pytest.mark.parametrize("leads_to", ["gone", "latest"])
def test_link_that_leads_nowhere_is_named(
    kind: str, leads_to: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    (tmp_path / "in" / "a").mkdir(parents=True)
    (tmp_path / "in" / "a" / "f").write_text("1")
    (tmp_path / "in" / "a" / "latest").symlink_to(leads_to)
    if kind == "folder":
        spec: Datastore = FolderDatastore(name="here", path=str(tmp_path / "in"))
    else:
        spec = request.getfixturevalue("sshd").datastore("here", tmp_path / "in")
    with over(spec) as access:
        for ask in (lambda: access.listing(HERE, is_file=False), lambda: access.entries(f"{HERE}a")):
            with pytest.raises((NotFoundError, ForbiddenError), match="`a/latest` can't be listed"):
                ask()


def test_a_folder_that_isnt_there_or_has_other_things(tmp_path: Path) -> None:
    there = FolderDatastore(name="here", path=str(tmp_path / "nope"))
    assert "there is nothing there" in refusal(there, NotFoundError)
    os.mkfifo(tmp_path / "pipe")
    assert "neither a file nor a folder" in refusal(FolderDatastore(name="here", path=str(tmp_path)), RefusedError)


# --- the web ----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("status", "kind", "says"),
    [
        (401, ForbiddenError, "requires credentials"),
        (403, ForbiddenError, "refuses"),
        (404, NotFoundError, "there is nothing there"),
        (429, UnreachableError, "busy or failing"),
        (500, UnreachableError, "busy or failing"),
        (503, UnreachableError, "busy or failing"),
    ],
)
def test_what_a_web_server_answers(web_server: WebServer, status: int, kind: type[DrumbeatError], says: str) -> None:
    web_server.status = status
    for verb in ("list", "read"):
        assert says in refusal(web_server.datastore("here"), kind, verb)


def test_a_web_server_that_doesnt_answer() -> None:
    there = HttpDatastore(name="here", url=f"http://127.0.0.1:{closed_port()}")
    assert "no answer from the web server" in refusal(there, NoConnectionError)


def test_a_web_server_that_breaks_off_in_the_middle(web_server: WebServer) -> None:
    web_server.put("f", b"0123456789" * 10)
    with over(web_server.datastore("here")) as access:
        (file,) = access.listing(HERE, is_file=False).files
        web_server.cut = 40
        read: list[bytes] = []
        with pytest.raises(UnreachableError):
            read.extend(access.read(HERE, file))
        web_server.cut = None
        got = sum(map(len, read))
        assert b"".join([*read, *access.read(HERE, file, got)]) == b"0123456789" * 10


@pytest.mark.parametrize(
    ("credentials", "header"),
    [({"token": "tok3n"}, "Bearer tok3n"), ({"user": "me", "password": "pa:ss"}, "Basic bWU6cGE6c3M=")],
)
def test_credentials_of_a_web_server_go_to_it_alone(
    web_server: WebServer, tmp_path: Path, credentials: dict[str, str], header: str
) -> None:
    web_server.authorization = header
    web_server.put("f", b"1")
    with over(web_server.datastore("here", **credentials)) as access:
        (file,) = access.listing(HERE, is_file=False).files
        assert b"".join(access.read(HERE, file)) == b"1"
        assert access.links(HERE, [file], 60) == [None]
    assert "requires credentials" in refusal(web_server.datastore("here", token="other"), ForbiddenError)
    refusal(web_server.datastore("here"), ForbiddenError)
    with a_web_server(tmp_path) as other:
        other.authorization = header
        assert "requires credentials" in refusal(HttpDatastore(name="here", url=other.url), ForbiddenError)


@pytest.mark.parametrize("answer", [0, 400, 403, 404])
@pytest.mark.parametrize("url", ["sets/digits.zip", "sets"])
def test_datastore_over_one_file_of_a_web_server_is_listed_and_read(
    web_server: WebServer, answer: int, url: str
) -> None:
    web_server.put(url, b"zipped")
    web_server.query, web_server.folder_status = "X-Amz-Signature=5e1f", answer
    spec = {"name": "here", "url": f"{web_server.url}/{url}", "credentials": {"query": "?X-Amz-Signature=5e1f"}}
    with over(HttpDatastore.made(spec)) as access:
        assert [(one.path, one.size) for one in access.entries(HERE)] == [(url.rpartition("/")[2], 6)]
        (file,) = access.listing(HERE, is_file=True).files
        assert b"".join(access.read(HERE, file)) == b"zipped"
        assert access.links(HERE, [file], 60) == [None]
        with pytest.raises(RefusedError, match=r"it is a file, not a folder\. Write `type: uri_file`"):
            access.listing(HERE, is_file=False)
    other = HttpDatastore.made({**spec, "credentials": {"query": "X-Amz-Signature=0000"}})
    with over(other) as access, pytest.raises(ForbiddenError, match="refuses"):
        access.entries(HERE)


def test_presigned_link_of_s3_is_a_datastore_over_one_file(s3_server: S3Server) -> None:
    bucket = s3_server.bucket()
    s3_server.client().put_object(Bucket=bucket, Key="sets/digits.zip", Body=b"zipped")
    link = s3_server.client().generate_presigned_url("get_object", {"Bucket": bucket, "Key": "sets/digits.zip"})
    url, _, query = link.partition("?")
    assert "ignature=" in query
    with over(HttpDatastore.made({"name": "here", "url": url, "credentials": {"query": query}})) as access:
        assert [(one.path, one.size) for one in access.entries(HERE)] == [("digits.zip", 6)]
        (file,) = access.listing(HERE, is_file=True).files
        assert b"".join(access.read(HERE, file)) == b"zipped"


def test_a_web_server_that_tells_nothing_of_its_files_is_read_once_to_know_them(web_server: WebServer) -> None:
    web_server.tags = web_server.dates = False
    web_server.put("f", b"content")
    access = StoreAccess(web_server.naming)
    (file,) = access.listing(f"{web_server.url}/f", is_file=True).files
    assert (file.sha256, file.key) == (hashlib.sha256(b"content").hexdigest(),) * 2
    web_server.put("f", b"another")
    with pytest.raises(ConflictError, match="has changed"):
        list(access.read(f"{web_server.url}/f", file))
    access.close()


@pytest.mark.parametrize("path", ["a", "a/", "", "/", "empty", "a/deep"])
def test_a_page_that_lists_a_folder_isnt_a_file(web_server: WebServer, path: str) -> None:
    web_server.put("a/f", b"1")
    web_server.put("a/deep/g", b"1")
    (web_server.folder / "empty").mkdir(exist_ok=True)
    access = StoreAccess(web_server.naming)
    address = f"{web_server.url}/{path}" if path.strip("/") else f"{web_server.url}{path}"
    with pytest.raises((RefusedError, ConflictError), match=r"it is a folder|is a folder, not a file") as refused:
        access.listing(address, is_file=True)
    assert "`type: uri_folder`" in refused.value.fix
    with over(web_server.datastore("here")) as there, pytest.raises((RefusedError, ConflictError)) as refused:
        there.listing(f"{HERE}{path.strip('/')}", is_file=True)
    assert "`type: uri_folder`" in refused.value.fix
    access.close()


def test_a_page_at_the_address_of_a_folder_may_be_the_file_that_is_meant(web_server: WebServer) -> None:
    web_server.put("report/index.html", b"<html><title>Loss</title><a href='https://elsewhere/'>more</a></html>")
    access = StoreAccess(web_server.naming)
    (file,) = access.listing(f"{web_server.url}/report/", is_file=True).files
    assert b"".join(access.read(f"{web_server.url}/report/", file)).startswith(b"<html><title>Loss")
    access.close()


# --- stores that can't be reached -------------------------------------------------------------------------------
def at_port(kind: str, port: int, host: str = "127.0.0.1") -> Datastore:
    """A store of a kind at a port of this machine, or of another host."""
    url, key = f"http://{host}:{port}", "QUFBQQ=="
    keys = {"access_key_id": "me", "secret_access_key": key}
    documents: dict[str, dict[str, object]] = {
        "azure_blob": {"account_name": "acme", "container_name": "data", "credentials": {"account_key": key}},
        "s3": {"bucket": "data", "credentials": keys},
        "gcs": {"bucket": "data"},
        "sftp": {"host": host, "port": port, "user": "me", "path": "/", "credentials": {"password": key}},
        "http": {"url": url},
    }
    place = {} if kind in ("sftp", "http") else {"endpoint": url}
    return datastore_from({"name": "here", "type": kind, **documents[kind], **place}, "test")


KINDS = ("azure_blob", "s3", "gcs", "sftp", "http")
ASKS: dict[str, Callable[[StoreAccess], object]] = {
    "a look": lambda access: access.entries(HERE),
    "a folder": lambda access: access.listing(f"{HERE}a", is_file=False),
    "a file": lambda access: access.listing(f"{HERE}a", is_file=True),
    "a read": lambda access: list(access.read(HERE, ListedFile("a", 1, "key", tag="1"))),
}


@pytest.mark.feature("F10")
@pytest.mark.parametrize(
    "ask", ["a read", *(pytest.param(ask, marks=pytest.mark.thorough) for ask in ASKS if ask != "a read")]
)
@pytest.mark.parametrize("kind", KINDS)
def test_a_store_that_takes_calls_and_answers_none_is_given_up(kind: str, ask: str) -> None:
    timeouts = StoreTimeouts(connect_s=1, answer_s=0.3, take_s=30)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        access = StoreAccess(lambda: {"here": at_port(kind, silent.getsockname()[1])}, timeouts)
        began = time.monotonic()
        with pytest.raises(UnreachableError, match=r"can't be (listed|read): (no answer|.*didn't answer)") as raised:
            ASKS[ask](access)
        # Twice, and what the libraries pause between; on a machine that is busy.
        assert time.monotonic() - began < 60
        access.close()
    assert (raised.value.where, bool(raised.value.fix)) == ("datastore `here`", True)


@contextlib.contextmanager
def answering(words: bytes) -> Iterator[int]:
    """A port where each caller is told so much, and then cut off."""

    def answer() -> None:
        with contextlib.suppress(OSError):
            while True:
                with there.accept()[0] as line:
                    line.sendall(words)

    with socket.create_server(("127.0.0.1", 0)) as there:
        thread = threading.Thread(target=answer)
        thread.start()
        try:
            yield there.getsockname()[1]
        finally:
            there.shutdown(socket.SHUT_RDWR)
            thread.join()


@pytest.mark.feature("F10")
@pytest.mark.parametrize(
    "words", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n", b"SSH-2.0-Broken\r\n", b"SSH-2.0-B\r\n" + b"x" * 99]
)
def test_an_ssh_server_that_breaks_is_one_line_in_the_log(words: bytes, caplog: pytest.LogCaptureFixture) -> None:
    with answering(words) as port:
        access = StoreAccess(lambda: {"here": at_port("sftp", port)}, StoreTimeouts(answer_s=2))
        with pytest.raises(UnreachableError, match=f"no answer from 127.0.0.1, port {port}"):
            access.entries(HERE)
        access.close()
    (line,) = caplog.records
    assert line.getMessage().startswith(f"datastore `here`: no answer from 127.0.0.1, port {port}: ")
    assert line.exc_info is None
    assert "\n" not in line.getMessage()


@pytest.mark.feature("F10")
@pytest.mark.parametrize("kind", KINDS)
def test_a_store_at_a_port_that_nobody_listens_at_is_given_up(kind: str) -> None:
    there = at_port(kind, closed_port())
    access = StoreAccess(lambda: {"here": there}, StoreTimeouts(answer_s=0.3))
    with pytest.raises(NoConnectionError, match=r"it can't be listed: no answer from .+: connection refused") as raised:
        access.entries(HERE)
    assert (raised.value.where, bool(raised.value.fix)) == ("datastore `here`", True)
    access.close()


@pytest.mark.feature("F10")
@pytest.mark.parametrize("kind", KINDS)
def test_store_whose_host_name_does_not_exist_is_said_to_have_no_such_name(kind: str) -> None:
    access = StoreAccess(lambda: {"here": at_port(kind, 9, "store.invalid")}, StoreTimeouts(answer_s=0.3))
    with pytest.raises(NoConnectionError, match=r"no answer from .+: its host name cannot be resolved"):
        access.entries(HERE)
    access.close()


@pytest.mark.feature("F10")
def test_file_at_address_whose_host_does_not_exist_cannot_be_connected_to() -> None:
    access = StoreAccess(dict)
    with pytest.raises(NoConnectionError, match="its host name cannot be resolved"):
        access.listing("https://store.invalid/train.csv", is_file=True)
    access.close()


def test_a_store_is_given_up_long_before_those_who_wait_for_the_server() -> None:
    timeouts = StoreTimeouts()
    assert timeouts.connect_s + 2 * timeouts.answer_s < 0.6 * (TIMEOUT.read or 0)


# --- addresses --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("uri", "kind", "says"),
    [
        ("azureml://datastores/hree/paths/x", UnknownNameError, "Did you mean `here`?"),
        ("azureml:name:1", RefusedError, "names no place in a datastore"),
        ("ftp://h/x", RefusedError, "isn't a URI of a store"),
        ("relative/path", RefusedError, "isn't a URI of a store"),
        ("file:relative", RefusedError, "names no folder of the server"),
        ("https://me:pa55word@h/x", RefusedError, "Put them under `credentials`"),
        ("wasbs://nothing/x", RefusedError, "names no container"),
        ("s3:///x", RefusedError, "isn't a valid URI"),
        ("sftp://me@h/x", RefusedError, "no datastore covers"),
        (f"{HERE}../x", RefusedError, "Write the path without."),
        (f"{HERE}{'x/' * 5000}y", ForbiddenError, "too long"),
        ("azureml://datastores/share/paths/x", RefusedError, "aren't supported"),
    ],
)
def test_addresses_that_cant_be_meant(uri: str, kind: type[DrumbeatError], says: str, tmp_path: Path) -> None:
    share = AzureFileDatastore(name="share", account_name="account", file_share_name="train")
    access = StoreAccess(lambda: {"here": FolderDatastore(name="here", path=str(tmp_path)), "share": share})
    with pytest.raises(kind) as refused:
        access.listing(uri, is_file=False)
    assert says in str(refused.value)
    assert "pa55word" not in str(refused.value)


@pytest.mark.parametrize(
    ("module", "uri", "extra"),
    [
        ("azure.storage.blob", "wasbs://train@account.blob.core.windows.net/x", "azure"),
        ("botocore.session", "s3://train/x", "s3"),
        ("google.cloud.storage", "gs://train/x", "gcs"),
        ("paramiko", HERE, "sftp"),
    ],
)
def test_a_library_that_isnt_there(module: str, uri: str, extra: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with (
        over(SftpDatastore(name="here", host="h", user="u", path="/")) as access,
        pytest.raises(RefusedError, match="isn't installed where the server runs") as refused,
    ):
        access.listing(uri, is_file=False)
    assert f"pip install 'drumbeat[{extra}]'" in str(refused.value)


def test_new_credentials_are_used_at_once(azurite: Azurite, container: str) -> None:
    held: dict[str, Datastore] = {"here": azurite.datastore("here", container, account_key="QUFBQQ==")}
    access = StoreAccess(lambda: held)
    with pytest.raises(ForbiddenError):
        access.listing(HERE, is_file=False)
    held["here"] = azurite.datastore("here", container)
    assert access.listing(HERE, is_file=False).size == 5
    access.close()


def closed_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]

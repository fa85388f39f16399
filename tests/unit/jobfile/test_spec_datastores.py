"""Datastores as a user writes them: keys, credentials that aren't shown, and credentials apart."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

from drumbeat.client.resource_files import described
from drumbeat.jobfile.data.credentials import split
from drumbeat.jobfile.data.datastores import CLASSES, Datastore, datastore_from, kind_of_credentials, secret_texts
from drumbeat.model.errors import SpecError
from drumbeat.resources.datastore import DATASTORE

pytestmark = pytest.mark.feature("D1")

SECRET = "Zm9vYmFyc2VjcmV0"
ACCOUNT = {"client_email": "a@b", "private_key": SECRET}
BLOB = {"name": "blobs", "type": "azure_blob", "account_name": "account", "container_name": "train"}
LAKE = {"name": "lake", "type": "azure_data_lake_gen2", "account_name": "account", "filesystem": "train"}
S3 = {"name": "bucket", "type": "s3", "bucket": "train"}
SFTP = {"name": "box", "type": "sftp", "host": "box", "user": "me"}
PRINCIPAL = {"tenant_id": "t", "client_id": "c", "client_secret": SECRET}
GOOD = [
    (BLOB, {"account_key": SECRET}, "account key"),
    (BLOB, {"sas_token": SECRET}, "SAS token"),
    (LAKE, PRINCIPAL, "service principal"),
    ({"name": "f", "type": "azure_file", "account_name": "account", "file_share_name": "train"},
     {"account_key": SECRET}, "account key"),
    ({"name": "web", "type": "http", "url": "https://h/x"}, {"user": "me", "password": SECRET}, "password"),
    ({"name": "web", "type": "http", "url": "https://h/x"}, {"token": SECRET}, "bearer token"),
    ({"name": "web", "type": "http", "url": "https://h/x"}, {"query": SECRET}, "signed query"),
    (S3, {"access_key_id": "A", "secret_access_key": SECRET}, "access key"),
    (SFTP, {"password": SECRET}, "password"),
    (SFTP, {"private_key": SECRET}, "private key"),
    ({"name": "g", "type": "gcs", "bucket": "train"}, {"service_account": ACCOUNT}, "service account"),
]  # fmt: skip


def made(head: dict[str, object], credentials: object = None) -> Datastore:
    return datastore_from({**head, "credentials": credentials})


@pytest.mark.parametrize(("head", "credentials", "kind"), GOOD)
def test_credentials_are_named_but_not_shown_and_come_back(
    head: dict[str, object], credentials: object, kind: str
) -> None:
    there = made(head, credentials)
    assert kind_of_credentials(there) == kind
    assert SECRET not in repr(there) + str(there) + there.model_dump_json()
    document, secrets = split(there)
    assert SECRET not in str(document)
    assert SECRET in str(secrets)
    assert any(SECRET in one for one in secret_texts(there))
    assert DATASTORE.join(document, secrets) == there


@pytest.mark.parametrize("word", ["environment", "none"])
def test_a_way_without_secrets_stays_in_the_document(word: str) -> None:
    document, secrets = split(made(S3, word))
    assert (document["credentials"], secrets) == (word, {})
    assert kind_of_credentials(cast("Datastore", DATASTORE.join(document, secrets))) == word


@pytest.mark.parametrize(
    ("head", "credentials", "said"),
    [
        (BLOB, SECRET, "expected `environment` or `none`, or a mapping"),
        (BLOB, [SECRET], "expected `environment` or `none`, or a mapping"),
        (BLOB, {}, "this needs `account_key` or `sas_token` or"),
        (BLOB, {"account_key": SECRET, "sas_token": SECRET}, "more than one way to get in"),
        (BLOB, {"account_key": [SECRET]}, "expected a text"),
        (BLOB, {"account_key": " "}, "this text is empty"),
        (BLOB, {"account_kee": SECRET}, "Did you mean `account_key`?"),
        (LAKE, {"tenant_id": "t", "client_secret": SECRET}, "this needs `client_id` too"),
        (S3, {"secret_access_key": SECRET}, "needs the key `access_key_id`"),
        (SFTP, "none", "expected `environment`, or a mapping"),
        (SFTP, {"password": "x", "passphrase": SECRET}, "a passphrase without a `private_key`"),
        ({"name": "g", "type": "gcs", "bucket": "train"}, {"service_account": SECRET}, "isn't the JSON"),
    ],
)
def test_wrong_credentials_are_refused_without_being_shown(
    head: dict[str, object], credentials: object, said: str
) -> None:
    with pytest.raises(SpecError, match="credentials") as refused:
        made(head, credentials)
    assert said in str(refused.value)
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ({"name": "x"}, "needs the key `type`"),
        ({"name": "x", "type": "azure_blobb"}, "Did you mean `azure_blob`?"),
        ({"name": "x", "type": "hdfs"}, "HDFS isn't supported"),
        ({"name": "x", "type": "azure_data_lake_gen1"}, "Azure has retired Data Lake gen1"),
        ({**BLOB, "account_name": "Not_One"}, "small letters and digits"),
        ({**BLOB, "name": "a/b"}, "letters, digits"),
        ({"name": "w", "type": "http", "url": f"https://me:{SECRET}@h/x"}, "Put them under `credentials`"),
        ({"name": "w", "type": "http", "url": f"https://h/x?sig={SECRET}"}, "goes under `credentials`, as `query`"),
        ({"name": "w", "type": "http", "url": "ftp://h/x"}, "isn't an address"),
        ({"name": "f", "type": "folder", "path": "/x", "credentials": "none"}, "unknown key `credentials`"),
        ({"name": "s", "type": "s3", "bucket": "b"}, "`b` isn't allowed here: 3 to 222 letters, digits"),
    ],
)
def test_invalid_loader_arguments_are_refused(document: dict[str, object], said: str) -> None:
    with pytest.raises(SpecError) as refused:
        datastore_from(document)
    assert said in str(refused.value)
    assert SECRET not in str(refused.value)


def test_a_file_is_read_and_its_relative_folder_counts_from_it(tmp_path: Path) -> None:
    file = tmp_path / "disk.yml"
    file.write_text("$schema: x\nname: disk\ntype: folder\npath: data\n")
    document = {"name": "disk", "type": "folder", "tags": {}, "path": str(tmp_path / "data")}
    assert described(DATASTORE, file) == (document, str(file))


def test_every_type_is_its_own_name() -> None:
    assert {name: cls.kind() for name, cls in CLASSES.items()} == {name: name for name in CLASSES}

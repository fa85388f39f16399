"""Every kind of store keeps the promises of `DataAccess`."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from drumbeat.jobfile.data.datastores import Datastore, FolderDatastore
from drumbeat.model.errors import NotFoundError, RefusedError
from drumbeat.server.data.stores import StoreAccess
from tests.real.store_servers import (
    Azurite,
    S3Server,
    Sshd,
    WebServer,
    azurite,
    s3_server,
    sshd,
    web_server,
)
from tests.support.data_contract import DataContract, DataReading, Store

__all__ = ["azurite", "s3_server", "sshd", "web_server"]

pytestmark = [pytest.mark.feature("D1", "D2"), pytest.mark.xdist_group("stores")]


def named(path: str = "") -> str:
    """A folder of the test's own in the datastore `here`."""
    return f"azureml://datastores/here/paths/{path or 't' + secrets.token_hex(6)}"


def access_to(datastore: Datastore) -> StoreAccess:
    return StoreAccess(lambda: {"here": datastore})


def writable(access: StoreAccess, uri: str, **more: object) -> Store:
    def put(path: str, content: bytes) -> None:
        access.write(uri, path, [content], len(content))

    return Store(access, uri, put, **more)


class TestFolder(DataContract):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Store:
        access = access_to(FolderDatastore(name="here", path=str(tmp_path)))
        (tmp_path / "data").mkdir()
        return writable(access, named("data"), has_links=False)

    def test_an_empty_folder_is_an_empty_listing(self, store: Store) -> None:
        assert store.listing().files == ()
        assert store.access.entries(store.uri) == []

    def test_it_says_where_it_lies_and_signs_nothing(self, store: Store, tmp_path: Path) -> None:
        store.put("a.txt", b"1")
        assert store.access.folder(store.uri) == str(tmp_path / "data")
        assert store.access.folder(f"{store.uri}/a.txt") == str(tmp_path / "data" / "a.txt")
        assert store.access.folder(f"{store.uri}/nope") == ""
        with pytest.raises(RefusedError, match="of type `folder` can't create links"):
            store.access.write_link(f"{store.uri}/b.txt", 60)


class TestFileUri(DataContract):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Store:
        return writable(StoreAccess(dict), tmp_path.as_uri(), has_links=False)

    def test_names_that_urls_break_on(self, store: Store) -> None:
        """The names are in the listing, not in the URI: only there are they percent-encoded."""
        super().test_names_that_urls_break_on(store)
        assert store.alone("a%20b/a%20b.txt").size == 3


class TestAzureBlob(DataContract):
    @pytest.fixture
    def store(self, azurite: Azurite) -> Iterator[Store]:
        access = access_to(azurite.datastore("here", azurite.container()))
        yield writable(access, named(), large=17 << 20, secrets=(azurite.key, "sig="))
        access.close()


class TestAzureBlobBySas(DataContract):
    @pytest.fixture
    def store(self, azurite: Azurite) -> Iterator[Store]:
        container = azurite.container()
        token = sas(azurite, container, "rlwdc")
        access = access_to(azurite.datastore("here", container, sas_token=token))
        yield writable(access, named(), has_links=False, large=17 << 20, secrets=(token, "sig="))
        access.close()

    def test_a_token_that_was_given_is_never_handed_on(self, store: Store) -> None:
        assert store.access.folder(store.uri) == ""
        with pytest.raises(RefusedError, match="a SAS token can't sign links"):
            store.access.write_link(f"{store.uri}/b.txt", 60)


class TestAzureBlobPublic(DataReading):
    @pytest.fixture
    def store(self, azurite: Azurite) -> Iterator[Store]:
        container, folder = azurite.container(is_public=True), "t" + secrets.token_hex(6)
        owner = access_to(azurite.datastore("here", container))
        there = azurite.datastore("here", container).model_copy(update={"credentials": "none"})
        access = access_to(there)
        yield Store(access, named(folder), writable(owner, named(folder)).put, is_writable=False, secrets=("sig=",))
        owner.close()
        access.close()


@pytest.fixture(scope="module")
def bucket(s3_server: S3Server) -> Iterator[tuple[StoreAccess, S3Server]]:
    access = access_to(s3_server.datastore("here", s3_server.bucket(), prefix="some/prefix"))
    yield access, s3_server
    access.close()


class TestS3(DataContract):
    @pytest.fixture
    def store(self, bucket: tuple[StoreAccess, S3Server]) -> Store:
        access, server = bucket
        return writable(access, named(), large=34 << 20, secrets=(server.key, "Signature="))


class TestSftp(DataContract):
    @pytest.fixture
    def store(self, sshd: Sshd) -> Iterator[Store]:
        folder = sshd.folder / secrets.token_hex(6)
        (folder / "data").mkdir(parents=True)
        access = access_to(sshd.datastore("here", folder))
        secrets_of_user = (sshd.private_key.splitlines()[2],)
        yield writable(access, named("data"), has_links=False, large=17 << 20, secrets=secrets_of_user)
        access.close()

    def test_an_abandoned_reading_disturbs_none_after_it(self, store: Store) -> None:
        """A thread of paramiko's that fails afterwards would fail this test, too."""
        content = secrets.token_bytes(17 << 20)
        store.put("big", content)
        (big,) = store.listing().files
        for _ in range(3):
            pieces = store.access.read(store.uri, big)
            assert content.startswith(next(pieces))
            pieces.close()
        assert b"".join(store.access.read(store.uri, big)) == content


class TestHttp(DataReading):
    @pytest.fixture
    def store(self, web_server: WebServer) -> Iterator[Store]:
        access = access_to(web_server.datastore("here"))
        (web_server.folder / "data").mkdir()
        yield Store(
            access, named("data"), lambda path, content: web_server.put(f"data/{path}", content), is_writable=False
        )
        access.close()

    def test_a_web_server_isnt_written_to(self, store: Store) -> None:
        with pytest.raises(RefusedError, match="can only be read"):
            store.access.write(store.uri, "f", [b"1"], 1)
        with pytest.raises(RefusedError, match="can only be read"):
            store.access.remove(store.uri, "f")


class TestPlainHttp(TestHttp):
    """A server that knows neither ranges nor conditions, at its own address."""

    @pytest.fixture
    def store(self, web_server: WebServer) -> Iterator[Store]:
        web_server.ranges = False
        access = StoreAccess(web_server.naming)
        (web_server.folder / "data").mkdir()
        put = lambda path, content: web_server.put(f"data/{path}", content)  # noqa: E731
        yield Store(access, f"{web_server.url}/data", put, is_writable=False)
        access.close()

    def test_an_address_with_letters_beyond_ascii(self, web_server: WebServer) -> None:
        web_server.put("größe/中 é.csv", b"1,2")
        folder, file = f"{web_server.url}/größe", f"{web_server.url}/größe/中 é.csv"
        with closing(StoreAccess(web_server.naming)) as access:
            for uri, is_file in ((folder, False), (file, True)):
                (one,) = access.listing(uri, is_file=is_file).files
                assert (one.path.rpartition("/")[2], one.size) == ("中 é.csv", 3)
                assert b"".join(access.read(uri, one)) == b"1,2"
                (link,) = access.links(uri, [one], 60)
                assert link is not None
                assert link.url == f"{web_server.url}/gr%C3%B6%C3%9Fe/%E4%B8%AD%20%C3%A9.csv"


def sas(azurite: Azurite, container: str, allowed: str) -> str:
    """A signature for a container."""
    from datetime import UTC, datetime, timedelta

    from azure.storage.blob import generate_container_sas

    until = datetime.now(UTC) + timedelta(hours=1)
    return generate_container_sas(azurite.account, container, azurite.key, permission=allowed, expiry=until)


def test_an_empty_folder_of_an_object_store_isnt_there(azurite: Azurite) -> None:
    access = access_to(azurite.datastore("here", azurite.container()))
    assert access.listing("azureml://datastores/here/paths/", is_file=False).files == ()
    with pytest.raises(NotFoundError, match="there is nothing in `x`"):
        access.listing(named("x"), is_file=False)
    access.close()

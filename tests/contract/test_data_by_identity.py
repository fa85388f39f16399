"""The promises of `DataAccess` over stores that ask who one is."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from drumbeat.jobfile.data.datastores import Datastore, datastore_from
from drumbeat.model.errors import ForbiddenError
from drumbeat.server.data.stores import StoreAccess
from drumbeat.server.data.stores.certificates import REQUESTS_VARIABLES
from tests.real.identities import (
    Authority,
    Certificate,
    a_bucket_server,
    a_certificate,
    an_authority,
    an_azurite_of_principals,
    an_sshd_by_password,
)
from tests.real.store_servers import Azurite, WebServer, web_server
from tests.support.data_contract import DataContract, DataReading, Store

__all__ = ["web_server"]

pytestmark = [pytest.mark.feature("D1"), pytest.mark.xdist_group("stores")]


@dataclass(frozen=True)
class Trusted:
    """Who answers for principals and accounts, believed by this process."""

    authority: Authority
    certificate: Certificate


@pytest.fixture(scope="module")
def trusted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trusted]:
    certificate = a_certificate(tmp_path_factory.mktemp("tls"))
    with an_authority(certificate) as authority, pytest.MonkeyPatch.context() as patch:
        for name, value in certificate.trusted.items():
            patch.setenv(name, value)
        for name in REQUESTS_VARIABLES:  # SSL_CERT_FILE is enough.
            patch.delenv(name, raising=False)
        yield Trusted(authority, certificate)


@pytest.fixture(scope="module")
def buckets(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with a_bucket_server(tmp_path_factory.mktemp("gcs")) as url:
        yield url


@pytest.fixture(scope="module")
def guarded(trusted: Trusted, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Azurite]:
    with an_azurite_of_principals(tmp_path_factory.mktemp("entra"), trusted.certificate) as server:
        yield server


def over(datastore: Datastore, *, path: str = "", hidden: tuple[str, ...], has_links: bool = True) -> Iterator[Store]:
    access = StoreAccess(lambda: {"here": datastore})
    uri = f"azureml://datastores/here/paths/{path or 't' + secrets.token_hex(6)}"

    def put(path: str, content: bytes) -> None:
        access.write(uri, path, [content], len(content))

    yield Store(access, uri, put, has_links=has_links, secrets=hidden)
    access.close()


def test_a_service_principal_reads_and_writes_and_a_wrong_one_is_told_so(guarded: Azurite, trusted: Trusted):
    """Azurite refuses every link that is signed with a principal's key (its issue 2412): links aren't tried."""
    principal, container = trusted.authority.principal, guarded.container()
    right = over(guarded.datastore("here", container, **principal), hidden=())
    store = next(right)
    store.put("d/f", b"1")
    assert [(one.path, store.whole(one)) for one in store.listing().files] == [("d/f", b"1")]
    assert list(right) == []
    wrong = over(guarded.datastore("here", container, **{**principal, "client_secret": "S3CRET"}), hidden=())
    with pytest.raises(ForbiddenError, match="the service principal isn't accepted") as refused:
        next(wrong).listing()
    assert "S3CRET" not in f"{refused.value} {refused.value.__cause__}"
    assert list(wrong) == []


class TestGcs(DataContract):
    """What fake-gcs-server can't do is left out: it checks no signature, and forgets what an object was before."""

    test_a_link_opens_its_file_alone = None
    test_other_content_has_another_key_and_isnt_given_for_the_one_that_was_listed = None

    @pytest.fixture
    def store(self, buckets: str, trusted: Trusted) -> Iterator[Store]:
        account = trusted.authority.account
        credentials = {"service_account": json.dumps(account)}
        keys = {"name": "here", "type": "gcs", "bucket": "train", "endpoint": buckets, "credentials": credentials}
        yield from over(datastore_from(keys), hidden=(account["private_key"].splitlines()[2], "Signature="))


class TestSftpByPassword(DataContract):
    @pytest.fixture
    def store(self, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
        with an_sshd_by_password(tmp_path_factory.mktemp("sshd")) as server:
            (server.folder / "data").mkdir()
            made = server.datastore("here", server.folder, credentials={"password": server.password})
            yield from over(made, path="data", has_links=False, hidden=(server.password,))


class TestHttpByQuery(DataReading):
    @pytest.fixture
    def store(self, web_server: WebServer) -> Iterator[Store]:
        (web_server.folder / "data").mkdir()
        web_server.query = f"X-Any-Signature={secrets.token_hex(12)}"
        access = StoreAccess(lambda: {"here": web_server.datastore("here", query=web_server.query)})
        uri = "azureml://datastores/here/paths/data"
        yield Store(
            access, uri, lambda path, content: web_server.put(f"data/{path}", content), is_writable=False,
            has_links=False, secrets=(web_server.query, "Signature="),
        )  # fmt: skip
        access.close()

"""Stores over TLS with a certificate authority of their own: not trusted, and named in SSL_CERT_FILE alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from hashlib import sha256
from pathlib import Path

import pytest

from drumbeat.jobfile.data.datastores import Datastore, datastore_from
from drumbeat.model.errors import CertificateError, ForbiddenError, RefusedError
from drumbeat.model.plan import OutputPlan
from drumbeat.model.states import State
from drumbeat.server.data.data_assets import DataAssets
from drumbeat.server.data.datastores import Datastores
from drumbeat.server.data.job_output_reader import JobOutputReader
from drumbeat.server.data.stores import StoreAccess
from drumbeat.server.data.stores.certificates import BOTOCORE_VARIABLES, REQUESTS_VARIABLES
from drumbeat.server.home_folder import FolderArtifacts
from drumbeat.server.outputs.output_publisher import PASSING
from drumbeat.server.outputs.publish_and_register import Publisher
from drumbeat.wiring import SystemClock
from tests.real.identities import Certificate, a_bucket_server, a_certificate, a_tls_front, made_out_anew
from tests.real.store_servers import S3Server, WebServer, an_azurite, s3_server, web_server
from tests.support.memory_store import MemoryStore
from tests.support.registries import make_models
from tests.support.sample_jobs import submission

__all__ = ["s3_server", "web_server"]

pytestmark = [pytest.mark.feature("D1"), pytest.mark.xdist_group("stores")]

HERE = "azureml://datastores/here/paths/"
EXPIRED = (timedelta(days=-2), timedelta(days=-1))
VALID = (timedelta(days=-1), timedelta(days=1))
EARLY = (timedelta(days=1), timedelta(days=2))


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return a_certificate(tmp_path_factory.mktemp("tls"))


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SSL_CERT_FILE", "SSL_CERT_DIR", *BOTOCORE_VARIABLES, *REQUESTS_VARIABLES):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def http(web_server: WebServer, certificate: Certificate) -> Iterator[Datastore]:
    web_server.put("f", b"1")
    with a_tls_front(web_server.url, certificate) as url:
        yield datastore_from({"name": "here", "type": "http", "url": url})


@pytest.fixture
def s3(s3_server: S3Server, certificate: Certificate) -> Iterator[Datastore]:
    bucket = s3_server.bucket()
    s3_server.client().put_object(Bucket=bucket, Key="f", Body=b"1")
    with a_tls_front(s3_server.endpoint, certificate) as url:
        yield s3_server.datastore("here", bucket).model_copy(update={"endpoint": url})


@pytest.fixture
def azure(tmp_path_factory: pytest.TempPathFactory, certificate: Certificate) -> Iterator[Datastore]:
    options = ("--cert", str(certificate.file), "--key", str(certificate.key))
    with an_azurite(tmp_path_factory.mktemp("azurite"), *options, ca=str(certificate.file)) as server:
        container = server.container()
        with server.service() as service:
            service.get_blob_client(container, "f").upload_blob(b"1")
        yield server.datastore("here", container)


@pytest.fixture
def gcs(tmp_path_factory: pytest.TempPathFactory, certificate: Certificate) -> Iterator[Datastore]:
    keys = {"name": "here", "type": "gcs", "bucket": "train", "credentials": "none"}
    with a_bucket_server(tmp_path_factory.mktemp("gcs")) as plain, a_tls_front(plain, certificate) as url:
        access = StoreAccess(lambda: {"here": datastore_from({**keys, "endpoint": plain})})
        access.write(HERE, "f", [b"1"], 1)
        access.close()
        yield datastore_from({**keys, "endpoint": url})


@pytest.fixture(params=["http", "s3", "azure", "gcs"])
def store(request: pytest.FixtureRequest) -> Datastore:
    return request.getfixturevalue(request.param)


def names_in(store: Datastore) -> list[str]:
    access = StoreAccess(lambda: {"here": store})
    try:
        return [file.path for file in access.listing(HERE, is_file=False).files]
    finally:
        access.close()


def test_certificate_that_is_not_trusted_is_told_with_what_to_set(store: Datastore):
    with pytest.raises(ForbiddenError) as refused:
        names_in(store)
    assert "the store's certificate isn't trusted here: self-signed certificate" in str(refused.value)
    assert "Start the server with a CA file in SSL_CERT_FILE" in refused.value.fix


def test_authority_in_ssl_cert_file_is_trusted(
    store: Datastore, certificate: Certificate, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate.file))
    assert names_in(store) == ["f"]


@pytest.mark.parametrize(
    ("kind", "variable"),
    [("s3", "AWS_CA_BUNDLE"), ("azure", "REQUESTS_CA_BUNDLE"), ("gcs", "REQUESTS_CA_BUNDLE")],
)
def test_variable_of_the_stores_library_goes_before_ssl_cert_file(
    kind: str, variable: str, request: pytest.FixtureRequest, certificate: Certificate, monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
):  # fmt: skip
    store = request.getfixturevalue(kind)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "absent.pem"))
    monkeypatch.setenv(variable, str(certificate.file))
    assert names_in(store) == ["f"]


@pytest.mark.parametrize("kind", ["s3", "azure", "gcs"])
def test_ssl_cert_file_without_a_file_is_told(
    kind: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    store = request.getfixturevalue(kind)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "absent.pem"))
    with pytest.raises(RefusedError, match=r"absent\.pem, which doesn't exist") as refused:
        names_in(store)
    assert "Correct SSL_CERT_FILE" in refused.value.fix


def test_certificate_for_another_name_is_not_told_as_one_of_an_unknown_authority(
    http: Datastore, certificate: Certificate, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate.file))
    with pytest.raises(ForbiddenError, match="Hostname mismatch") as refused:
        names_in(http.model_copy(update={"url": http.url.replace("127.0.0.1", "localhost")}))
    assert refused.value.fix == "Use a name that the certificate is issued for."


@pytest.mark.parametrize(
    ("kind", "variable"),
    [
        ("s3", "AWS_CA_BUNDLE"),
        ("s3", "REQUESTS_CA_BUNDLE"),
        ("azure", "CURL_CA_BUNDLE"),
        ("gcs", "REQUESTS_CA_BUNDLE"),
    ],
)
def test_variable_that_goes_before_ssl_cert_file_is_the_one_that_is_told(
    kind: str, variable: str, request: pytest.FixtureRequest, certificate: Certificate, monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
):  # fmt: skip
    store = request.getfixturevalue(kind)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate.file))
    monkeypatch.setenv(variable, str(a_certificate(tmp_path).file))
    with pytest.raises(CertificateError) as refused:
        names_in(store)
    advice = f"Start the server with a CA file in {variable}, which takes precedence over SSL_CERT_FILE."
    assert refused.value.fix == advice


@pytest.mark.parametrize("kind", ["http", "s3", "gcs"])
def test_certificate_that_is_not_valid_yet_is_told_as_a_matter_of_clocks(
    kind: str, request: pytest.FixtureRequest, certificate: Certificate, monkeypatch: pytest.MonkeyPatch
):
    store = request.getfixturevalue(kind)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate.file))
    made_out_anew(certificate, *EARLY)
    try:
        with pytest.raises(CertificateError, match="certificate is not yet valid") as refused:
            names_in(store)
    finally:
        made_out_anew(certificate, *VALID)
    assert refused.value.fix == "Check the clocks."


MODEL = OutputPlan("model", "uri_folder", "upload", f"{HERE}model")


def test_outputs_wait_for_an_expired_certificate_to_be_renewed(
    s3: Datastore, certificate: Certificate, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    artifacts, records = FolderArtifacts(tmp_path), MemoryStore()
    artifacts.append_output("j", 1, 0, "model/weights.pt", 0, b"weights")
    assert artifacts.commit_outputs("j", 1, 0, {"model/weights.pt": (7, sha256(b"weights").hexdigest())}) == []
    made = submission("j").job
    job = replace(made, state=State.COMPLETED, attempt=1, plan=replace(made.plan, outputs=(MODEL,)))
    access = StoreAccess(lambda: {"here": s3})
    data = JobOutputReader(artifacts, access)
    publishing = Publisher(
        data, access, DataAssets(records, SystemClock(), Datastores(records, b"k"), data, make_models(records, data))
    )
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate.file))
    made_out_anew(certificate, *EXPIRED)
    try:
        with pytest.raises(PASSING, match="certificate has expired"):
            publishing.publish(job, MODEL, is_last=False)
        told = publishing.publish(job, MODEL, is_last=True)
        assert told is not None
        assert told.problem.endswith("certificate has expired. Have the certificate renewed.")
        made_out_anew(certificate, *VALID)
        told = publishing.publish(job, MODEL, is_last=False)
        assert told is not None
        assert (told.problem, told.files) == ("", 1)
        assert {one.path for one in access.listing(MODEL.uri, is_file=False).files} >= {"weights.pt"}
    finally:
        made_out_anew(certificate, *VALID)
        access.close()

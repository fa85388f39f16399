"""Google's buckets, as far as they can be tried without Google: links, names, streams, what errors mean."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import parse_qs, unquote, urlsplit

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from google.api_core import exceptions
from google.auth.exceptions import RefreshError

from drumbeat.jobfile.data.datastores import GcsDatastore
from drumbeat.model.errors import ForbiddenError, NotFoundError, StorageError, UnreachableError
from drumbeat.server.data.stores.backend_contract import Counted, StoreTimeouts, Wanted
from drumbeat.server.data.stores.gcs import GcsBackend, _Stream

pytestmark = pytest.mark.feature("D1")


@pytest.fixture(scope="module")
def backend() -> GcsBackend:
    key = rsa.generate_private_key(65537, 2048).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    account = {
        "type": "service_account",
        "project_id": "p",
        "client_email": "me@p.iam.gserviceaccount.com",
        "private_key": key.decode(),
        "token_uri": "https://oauth2.googleapis.com/token",
    }
    return GcsBackend(
        GcsDatastore.made({"name": "g", "bucket": "train", "credentials": {"service_account": account}}),
        "g",
        StoreTimeouts(),
    )


def test_a_link_is_signed_for_one_generation_of_one_file_and_expires(backend: GcsBackend) -> None:
    link = backend.link(Wanted("a b/#1?.txt", 5, "17"), 600)
    assert link
    parts = urlsplit(link.url)
    said = parse_qs(parts.query)
    assert unquote(parts.path) == "/train/a b/#1?.txt"
    assert (said["X-Goog-Expires"], said["generation"]) == (["600"], ["17"])
    assert said["X-Goog-Signature"]


def test_links_ask_for_the_bytes_that_are_kept_and_not_for_what_is_packed_in_them(backend: GcsBackend) -> None:
    open_backend = GcsBackend(GcsDatastore(name="g", bucket="train"), "g", StoreTimeouts())
    for each in (backend, open_backend):
        link = each.link(Wanted("train.csv.gz", 5, "17"), 600)
        assert link
        assert link.headers == {"Accept-Encoding": "gzip"}


def test_a_public_file_has_its_own_address() -> None:
    open_backend = GcsBackend(GcsDatastore(name="g", bucket="train"), "g", StoreTimeouts())
    link = open_backend.link(Wanted("a b", 5, "17"), 600)
    assert link
    assert link.url == "https://storage.googleapis.com/train/a%20b?generation=17"


@pytest.mark.parametrize("size", [1, 3, 100, -1])
def test_pieces_are_read_as_a_file(size: int) -> None:
    stream, read = _Stream(Counted([b"ab", b"", b"cdefg"], 7)), b""
    while piece := stream.read(size):
        read += piece
        assert stream.tell() == len(read)
    assert read == b"abcdefg"


def test_broken_upload_fails_on_every_further_read() -> None:
    """Google's library reads on after a ConnectionError, and would keep an empty file."""

    def pieces() -> Iterator[bytes]:
        yield b"half"
        raise ConnectionAbortedError

    stream = _Stream(Counted(pieces(), 4))
    for _ in range(2):
        with pytest.raises(Exception) as broken:  # noqa: PT011 (it is no kind that the library tries again)
            stream.read(4)
        assert not isinstance(broken.value, OSError)
        assert isinstance(broken.value.source, ConnectionAbortedError)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (exceptions.NotFound(""), NotFoundError),
        (exceptions.Forbidden(""), ForbiddenError),
        (exceptions.Unauthorized(""), ForbiddenError),
        (exceptions.TooManyRequests(""), UnreachableError),
        (exceptions.ServiceUnavailable(""), UnreachableError),
        (exceptions.BadRequest(""), StorageError),
        (RefreshError(""), ForbiddenError),
        (OSError(), UnreachableError),
    ],
)
def test_errors_of_google_map_to_errors_of_drumbeat(
    backend: GcsBackend, error: Exception, kind: type[Exception]
) -> None:
    assert backend._judge(error).kind is kind

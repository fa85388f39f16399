"""Links to files of a bucket are those that botocore would sign."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from drumbeat.jobfile.data.datastores import S3Datastore
from drumbeat.server.data.stores.backend_contract import StoreTimeouts, Wanted
from drumbeat.server.data.stores.s3 import S3Backend
from drumbeat.server.data.stores.s3_links import LinkSigner

KEYS = ("a/b.bin", "ü &#?%.txt", "x~y (1)'!*", "a//b", "+", "a/../b", "%41", "東京/=;:@,$")
URL = (
    "http://127.0.0.1/b/a?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=K%2F20261129%2Fus-east-1%2Fs3%2Faws4_request"
    "&X-Amz-Date=20261129T035029Z&X-Amz-Expires=60&X-Amz-SignedHeaders=host&X-Amz-Signature="
)


def backend(**keys: str) -> S3Backend:
    credentials = {"access_key_id": "AKIDEXAMPLE", "secret_access_key": "s3cr3t/key+x", **keys}
    endpoint = {} if keys else {"endpoint": "http://127.0.0.1:8333"}
    spec = {"name": "b", "type": "s3", "bucket": "my-bucket", "credentials": credentials, **endpoint}
    return S3Backend(S3Datastore.model_validate(spec), "b", StoreTimeouts())


def signed(one: S3Backend, keys: Sequence[str]) -> list[str]:
    """What botocore signs."""
    what = [{"Bucket": "my-bucket", "Key": key} for key in keys]
    return [one._client.generate_presigned_url("get_object", each, 3600) for each in what]


@pytest.mark.parametrize("keys", [{}, {"session_token": "tok/en=="}], ids=["path", "host and token"])
def test_links_are_the_same_as_those_that_botocore_signs(keys: dict[str, str]):
    links, expected = list[str](), [""]
    while links[:1] != expected[:1]:  # A link names the second in which it was signed.
        one = backend(**keys)
        made = [one.link(Wanted(key, 1, "tag"), 3600) for key in KEYS]
        links = [link.url for link in made if link and link.headers == {"If-Match": '"tag"'}]
        expected = signed(one, KEYS)
    assert links == expected


@pytest.mark.parametrize("url", ["http://127.0.0.1/b/a", URL + "0" * 64, URL.replace("=host", "=host%3Bx") + "0" * 64])
def test_link_that_is_signed_otherwise_is_no_pattern(url: str):
    with pytest.raises(ValueError, match="signed"):
        LinkSigner(url, "a", "secret")

"""Compressed answers of the API over HTTP."""

import gzip
import json
from collections.abc import Iterator

import httpx
import pytest
from starlette.datastructures import Headers

from drumbeat.server.access.response_compression import MIN_BYTES, THREAD_BYTES, accepts_gzip

from .api_house import House, house_in

DESCRIPTION = "a long description " * (MIN_BYTES // 10)


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with house_in(tmp_path_factory.mktemp("house")) as there:
        there.submit("small")
        there.submit("large", description=DESCRIPTION)
        there.submit("huge", description=DESCRIPTION * (THREAD_BYTES // MIN_BYTES))
        yield there


def raw(house: House, path: str, encoding: str) -> tuple[httpx.Response, bytes]:
    with house.http.stream("GET", path, headers={"Accept-Encoding": encoding}) as answer:
        return answer, b"".join(answer.iter_raw())


@pytest.mark.parametrize("job", ["large", "huge"])
def test_long_answer_is_compressed_if_accepted(house: House, job: str):
    answer, body = raw(house, f"/api/v1/jobs/{job}", "br, gzip")
    assert answer.headers["content-encoding"] == "gzip"
    assert answer.headers["vary"] == "Accept-Encoding"
    assert int(answer.headers["content-length"]) == len(body) < MIN_BYTES
    plain, text = raw(house, f"/api/v1/jobs/{job}", "identity")
    assert "content-encoding" not in plain.headers
    assert plain.headers["vary"] == "Accept-Encoding"
    assert json.loads(gzip.decompress(body)) == json.loads(text)


def test_short_answers_and_streams_stay_as_they_are(house: House):
    answer, body = raw(house, "/api/v1/jobs/small", "gzip")
    assert "content-encoding" not in answer.headers
    assert json.loads(body)["name"] == "small"
    with house.http.stream("GET", "/api/v1/events", headers={"Accept-Encoding": "gzip"}) as stream:
        assert "content-encoding" not in stream.headers
        assert next(stream.iter_raw()).startswith(b": watching")


@pytest.mark.parametrize(
    ("header", "accepts"),
    [("gzip", True), ("deflate, GZIP;q=0.5", True), ("*", True), ("", False), ("identity", False), ("gzip;q=0", False)],
)
def test_client_requests_gzip_only_where_intended(header: str, accepts: bool):
    assert accepts_gzip(Headers({"accept-encoding": header})) is accepts

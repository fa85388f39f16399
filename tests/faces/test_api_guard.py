"""Who is let in: on every path and method, whatever stands behind it. The app is called directly, without a socket."""

import asyncio
from collections.abc import MutableMapping
from types import SimpleNamespace
from typing import NoReturn, cast

import httpx
import pytest

from drumbeat.server.access.request_guard import HEALTH, SHORT_BODY, allowed_hosts
from drumbeat.server.app import make_app
from drumbeat.server.context import ServerContext
from drumbeat.server.control import Control
from drumbeat.server.nodes.engine_gangs import Secrets
from drumbeat.server.users.tokens import Tokens
from drumbeat.wiring import SystemClock
from tests.support.memory_store import MemoryStore

TOKEN = "tr33-frog"
HOSTS = allowed_hosts(8080, ["training.example"])
SECRETS = Secrets(b"k" * 32)
TOKENS = Tokens(MemoryStore(), SystemClock())
CONTROL = cast("Control", SimpleNamespace(tokens=TOKENS, secrets=SECRETS, is_active=True))
APP = make_app(ServerContext(CONTROL), token=TOKEN, hosts=HOSTS)
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "WHATEVER")
OTHERS = {"/", "/api/v1/openapi.json", "/nothing", "//api/v1/version", "/agent/v1/"}
PATHS = sorted({*APP.openapi()["paths"], *OTHERS} - set(HEALTH))
FILLED = {
    "job": "j",
    "attempt": 1,
    "node": 0,
    "name": "n",
    "path": "p",
    "digest": "0" * 64,
    "kind": "k",
    "key": "e",
    "alias": "champion",
    "version": "7",
    "person": "ada",
    "request_id": "r",
    "view": "w",
    "tunnel_id": "t",
    "session": "s",
    "service": "lab",
    "endpoint": "ships",
    "deployment": "blue",
    "key_type": "primary",
}
ADDRESSES = [path.format(**FILLED) for path in PATHS]
RIGHT = {"Host": "127.0.0.1:8080", "Authorization": f"Bearer {TOKEN}"}


def ask(method: str, path: str, headers: dict[str, str] | list[tuple[str, str]]) -> httpx.Response:
    async def once() -> httpx.Response:
        transport = httpx.ASGITransport(APP, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport) as client:
            request = httpx.Request(method, f"http://127.0.0.1:8080{path}", headers=headers)
            return await client.send(request)

    return asyncio.run(once())


def refused(method: str, path: str, headers: dict[str, str] | list[tuple[str, str]]) -> str:
    answer = ask(method, path, headers)
    assert answer.status_code in (401, 403), (method, path, answer.status_code)
    if method != "HEAD":
        told = answer.json()
        assert set(told) == {"code", "what", "where", "fix", "fields"}
        assert told["code"] == answer.headers["drumbeat-error"]
    assert TOKEN not in answer.text
    return answer.headers["drumbeat-error"]


@pytest.mark.feature("X1")
@pytest.mark.parametrize("path", ADDRESSES)
def test_a_foreign_host_or_origin_is_refused_on_every_path_and_method(path: str) -> None:
    for method in METHODS:
        assert refused(method, path, {**RIGHT, "Host": "evil.example"}) == "forbidden"
        assert refused(method, path, {**RIGHT, "Origin": "http://evil.example"}) == "forbidden"


@pytest.mark.feature("X1")
@pytest.mark.parametrize(
    "path", [path for path in ADDRESSES if path != "/" and not path.startswith(("/agent/v1/", "/ui"))]
)
def test_a_token_is_needed_on_every_path_and_method(path: str) -> None:
    for method in METHODS:
        assert refused(method, path, {"Host": RIGHT["Host"]}) == "unauthorized"
        assert refused(method, path, {**RIGHT, "Authorization": "Bearer wrong"}) == "unauthorized"


@pytest.mark.feature("X1")
@pytest.mark.parametrize(
    "path", ["sync", "metrics", "logs/1.1/0/0.log", "outputs/commit", "mlflow/api/2.0/mlflow/runs/create"]
)
def test_call_without_the_secret_of_its_attempt_is_refused_before_its_body_is_read(path: str) -> None:
    answers: list[dict[str, object]] = []

    async def receive() -> NoReturn:
        raise AssertionError("the body was read")

    async def send(message: dict[str, object]) -> None:
        answers.append(message)

    for secret in (b"", SECRETS.of("j", 2).encode(), SECRETS.of("k", 1).encode(), TOKEN.encode()):
        headers = [(b"host", b"127.0.0.1:8080"), (b"authorization", b"Bearer " + secret)]
        scope = {"type": "http", "method": "POST", "path": f"/agent/v1/j/1/0/{path}", "headers": headers}
        asyncio.run(APP(scope, receive, send))
        assert answers[0]["status"] == 401
        assert (b"connection", b"close") in answers[0]["headers"]
        answers.clear()


@pytest.mark.feature("X1")
@pytest.mark.parametrize(("length", "read"), [(0, 1), (SHORT_BODY, 2), (SHORT_BODY + 1, 0), (-1, 0)])
def test_only_a_short_body_of_a_refused_request_is_read(length: int, read: int) -> None:
    """A client that still sends it when its connection is closed would miss the refusal."""
    events: list[str] = []
    pieces = [b"x" * length] if length else []

    async def receive() -> MutableMapping[str, object]:
        events.append("read")
        body = pieces.pop(0) if pieces else b""
        return {"type": "http.request", "body": body, "more_body": bool(body)}

    async def send(message: MutableMapping[str, object]) -> None:
        events.append(str(message["type"]))

    headers = [(b"host", b"127.0.0.1:8080"), (b"content-length", str(length).encode())]
    asyncio.run(
        APP({"type": "http", "method": "POST", "path": "/agent/v1/j/1/0/sync", "headers": headers}, receive, send)
    )
    assert events == ["read"] * read + ["http.response.start", "http.response.body"]


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1", "127.0.0.1:80", "127.0.0.1:80801", "127.0.0.1:8080.evil.example", "localhost.evil.example:8080",
        "", "0.0.0.0:8080", "127.0.0.1:8080@evil.example", "evil.example:8080", "[::2]:8080", "localhost:8080 ", "*",
    ],
)  # fmt: skip
def test_a_host_that_only_looks_like_ours_is_refused(host: str) -> None:
    assert refused("GET", "/api/v1/version", {**RIGHT, "Host": host}) == "forbidden"


@pytest.mark.parametrize(
    "host", ["127.0.0.1:8080", "LOCALHOST:8080", "[::1]:8080", "training.example", "Training.Example:8080"]
)
def test_our_own_names_are_let_in(host: str) -> None:
    assert ask("GET", "/api/v1/version", {**RIGHT, "Host": host}).status_code == 200
    origin = {**RIGHT, "Host": host, "Origin": f"http://{host}"}
    assert ask("GET", "/api/v1/version", origin).status_code == 200


@pytest.mark.parametrize(
    "origin",
    ["null", "", "http://127.0.0.1:8081", "http://evil.example", "file://", "http://127.0.0.1:8080/", "ftp://127.0.0.1:8080",
     "http://u@127.0.0.1:8080", "http://[", "127.0.0.1:8080"],
)  # fmt: skip
def test_a_foreign_origin_is_refused(origin: str) -> None:
    assert refused("POST", "/api/v1/stop", {**RIGHT, "Origin": origin}) == "forbidden"


def test_headers_that_come_twice_are_refused() -> None:
    pairs = list(RIGHT.items())
    assert refused("GET", "/api/v1/version", [*pairs, ("Host", "evil.example")]) == "forbidden"
    assert (
        refused("GET", "/api/v1/version", [*pairs, ("Origin", "http://127.0.0.1:8080"), ("Origin", "http://e.x")])
        == "forbidden"
    )
    assert refused("GET", "/api/v1/version", [*pairs, ("Authorization", "Bearer wrong")]) == "unauthorized"


@pytest.mark.parametrize(
    "given",
    ["tr33-frog", "Basic tr33-frog", "Bearer", "Bearer  ", "Bearer tr33-frog x", "Bearer tr33-fróg", "bearertr33-frog"],
)
def test_malformed_token_is_refused(given: str) -> None:
    headers = [("Host", RIGHT["Host"]), ("Authorization", given)]
    encoded = [(name.encode(), value.encode("latin-1")) for name, value in headers]
    assert refused("GET", "/api/v1/version", cast("list[tuple[str, str]]", encoded)) == "unauthorized"


def test_no_other_origin_is_ever_allowed_to_read() -> None:
    answer = ask("OPTIONS", "/api/v1/jobs", {**RIGHT, "Access-Control-Request-Method": "POST"})
    assert not [name for name in answer.headers if name.startswith("access-control")]

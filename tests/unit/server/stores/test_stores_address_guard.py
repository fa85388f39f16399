"""Addresses that the server calls for a request: public ones, and those of datastores."""

from __future__ import annotations

import contextlib
import http.server
import threading
from collections.abc import Callable, Generator, Sequence

import httpx
import pytest

from drumbeat.jobfile.data.datastores import AzureBlobDatastore, Datastore, HttpDatastore
from drumbeat.model.errors import ForbiddenError
from drumbeat.server.data.stores.address_guard import AddressGuard, is_public, named_places
from drumbeat.server.data.stores.store_access import StoreAccess

PRIVATE = [
    "127.0.0.1", "127.8.8.8", "0.0.0.0", "10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1",
    "224.0.0.1", "255.255.255.255", "::1", "::", "fe80::1", "fe80::1%eth0", "fc00::1", "ff02::1", "::ffff:127.0.0.1",
    "::ffff:10.0.0.1", "64:ff9b::127.0.0.1", "2002:7f00:1::",
]  # fmt: skip


@pytest.mark.parametrize("address", PRIVATE)
def test_address_of_a_machine_a_link_or_a_private_network_is_not_public(address: str):
    assert not is_public(address)


@pytest.mark.parametrize("address", ["1.1.1.1", "93.184.216.34", "2606:4700::1111", "64:ff9b::1.1.1.1"])
def test_address_of_the_internet_is_public(address: str):
    assert is_public(address)


def guard_of(
    *datastores: Datastore, resolved: Callable[[str, int], Sequence[str]] = lambda host, _: [host]
) -> AddressGuard:
    return AddressGuard(lambda: {one.name: one for one in datastores}, resolved)


def store_at(url: str) -> HttpDatastore:
    return HttpDatastore(name="web", url=url)


def test_refusal_names_the_host_its_address_and_the_way_out():
    with pytest.raises(ForbiddenError) as refused:
        guard_of(resolved=lambda *_: ["1.1.1.1", "10.0.0.7"]).addresses("nas.example", 80)
    assert (refused.value.where, "create a datastore" in refused.value.fix) == ("nas.example:80 (10.0.0.7)", True)


@pytest.mark.parametrize(("url", "is_let_pass"), [
    ("http://127.0.0.1:8000/data", True), ("http://127.0.0.1:8001", False), ("http://127.0.0.1", False),
    ("http://other:8000", False),
])  # fmt: skip
def test_private_address_is_let_pass_where_a_datastore_names_host_and_port(url: str, is_let_pass: bool):
    with contextlib.nullcontext() if is_let_pass else pytest.raises(ForbiddenError):
        assert guard_of(store_at(url)).addresses("127.0.0.1", 8000) == ["127.0.0.1"]


def test_places_of_datastores_have_the_usual_ports():
    assert named_places([store_at("http://NAS/x"), store_at("https://h/y")]) == {("nas", 80), ("h", 443)}


@contextlib.contextmanager
def server(answer: Callable[[http.server.BaseHTTPRequestHandler], None]) -> Generator[int]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answer(self)

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as there:
        threading.Thread(target=there.serve_forever, daemon=True).start()
        yield there.server_port
        there.shutdown()


def redirecting(to: str) -> Callable[[http.server.BaseHTTPRequestHandler], None]:
    def answer(request: http.server.BaseHTTPRequestHandler) -> None:
        request.send_response(302)
        request.send_header("Location", to)
        request.send_header("Content-Length", "0")
        request.end_headers()

    return answer


def got(guard: AddressGuard, url: str) -> httpx.Response:
    with httpx.Client(transport=guard.transport(httpx.Limits()), follow_redirects=True, timeout=20) as client:
        return client.get(url)


def test_redirect_to_an_address_of_this_machine_is_not_followed():
    secret: list[str] = []
    with (
        server(lambda request: secret.append(request.path)) as inner,
        server(redirecting(f"http://127.0.0.1:{inner}/secret")) as outer,
        pytest.raises(ForbiddenError),
    ):
        got(guard_of(store_at(f"http://127.0.0.1:{outer}")), f"http://127.0.0.1:{outer}/a")
    assert secret == []


def test_connection_goes_to_the_address_that_was_checked_though_the_name_changes():
    """DNS rebinding: the second look at the name would lead to this machine."""
    answers = iter([["93.184.216.34"], ["127.0.0.1"]])
    checked = next(answers)
    assert guard_of(resolved=lambda *_: checked).addresses("rebind.example", 80) == checked
    with pytest.raises(ForbiddenError):
        guard_of(resolved=lambda *_: next(answers)).addresses("rebind.example", 80)


def test_named_host_is_called_at_the_address_that_it_resolves_to():
    def answer(request: http.server.BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.end_headers()
        request.wfile.write(request.headers["Host"].encode())

    with server(answer) as port:
        guard = guard_of(store_at(f"http://store.example:{port}"), resolved=lambda *_: ["127.0.0.1"])
        assert got(guard, f"http://store.example:{port}/a").text == f"store.example:{port}"


@pytest.mark.parametrize(
    "uri", ["wasbs://data@account.blob.evil.example/x", "https://evil.example/account/data/x?sv=2024&sig=1"]
)
def test_azures_protocol_is_used_only_with_hosts_of_microsoft_and_datastores(uri: str):
    with pytest.raises(ForbiddenError, match="Create a datastore for it"):
        StoreAccess(dict).listing(uri, is_file=False)


@pytest.mark.parametrize("url", ["https://mine.blob.core.windows.net", "http://127.0.0.1:10000/mine"])
def test_azures_protocol_is_spoken_with_microsoft_and_with_accounts_of_datastores(url: str):
    own = {"name": "own", "account_name": "mine", "container_name": "data", "endpoint": "http://127.0.0.1:10000"}
    guard_of(AzureBlobDatastore.made(own)).require_azure(url, "it")

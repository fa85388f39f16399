"""Which addresses agents may be listened for at, and where this machine's own agents call."""

import ipaddress
import socket
from pathlib import Path

import pytest

from drumbeat.model.errors import EngineError, UnreachableError
from drumbeat.server.access.listen_addresses import is_public, resolve_address
from drumbeat.server.options import Options, parse


@pytest.mark.feature("X6")
@pytest.mark.parametrize(
    ("address", "public"),
    [
        ("127.0.0.1", False), ("10.0.0.1", False), ("172.31.255.255", False), ("192.168.1.1", False),
        ("169.254.1.1", False), ("100.64.0.1", False), ("100.127.255.254", False), ("::1", False), ("fd00::1", False),
        ("fe80::1", False), ("::ffff:10.0.0.1", False), ("100.63.255.255", True), ("100.128.0.0", True),
        ("172.32.0.1", True), ("8.8.8.8", True), ("2001:4860:4860::8888", True), ("::ffff:8.8.8.8", True),
    ],
)  # fmt: skip
def test_address_reachable_from_the_internet_is_public(address: str, public: bool) -> None:
    assert is_public(ipaddress.ip_address(address)) is public


@pytest.mark.feature("X6")
def test_public_address_needs_allow_public() -> None:
    with pytest.raises(EngineError, match=r"^8\.8\.8\.8: this address is public, .* --allow-public"):
        resolve_address("8.8.8.8", allow_public=False)
    assert resolve_address("8.8.8.8", allow_public=True).host == "8.8.8.8"


def test_address_has_one_spelling() -> None:
    assert resolve_address("FD00:0::1", allow_public=False).host == "[fd00::1]"
    assert resolve_address("LocalHost.", allow_public=False).host == "localhost"


@pytest.mark.feature("C4", "X6")
@pytest.mark.parametrize(
    ("ips", "taken"),
    [
        (["10.0.0.5", "10.0.0.5", "fd00::5"], ("10.0.0.5", "fd00::5")), (["127.0.1.1", "10.0.0.5"], ("10.0.0.5",)),
        (["8.8.8.8", "10.0.0.5"], ("10.0.0.5",)), (["0.0.0.0", "10.0.0.5"], ("10.0.0.5",)),
    ],
)  # fmt: skip
def test_a_name_stands_for_each_of_its_addresses_at_which_agents_may_call(
    ips: list[str], taken: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    _resolve_to(ips, monkeypatch)
    found = resolve_address("Head_1.example.", allow_public=False)
    assert (found.name, found.ips) == ("head_1.example", taken)


@pytest.mark.feature("C4", "X6")
@pytest.mark.parametrize(
    ("ips", "why"),
    [
        (["127.0.1.1", "::1"], r"^head \(127\.0\.1\.1, ::1\): on this machine, the name resolves only to a loopback"),
        (["8.8.8.8"], r"^head \(8\.8\.8\.8\): this address is public"),
        (["0.0.0.0"], r"^head \(0\.0\.0\.0\): the server can't listen for agents on this address"),
    ],
)  # fmt: skip
def test_name_unreachable_for_agents_is_refused_with_its_address(
    ips: list[str], why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _resolve_to(ips, monkeypatch)
    with pytest.raises(EngineError, match=why) as refused:
        resolve_address("head", allow_public=False)
    assert refused.value.fix


def test_name_of_another_machine_is_refused_with_its_address(monkeypatch: pytest.MonkeyPatch) -> None:
    _resolve_to(["10.254.253.252"], monkeypatch)
    said = r"^far\.example \(10\.254\.253\.252\): the server can't listen for agents: Cannot assign requested address"
    with pytest.raises(UnreachableError, match=said):
        resolve_address("far.example", allow_public=False).here()


def _resolve_to(ips: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (ip, 0)) for ip in ips]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)


@pytest.mark.feature("X6")
def test_allow_public_comes_from_the_option_or_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DRUMBEAT_ALLOW_PUBLIC", raising=False)
    assert not parse([]).allow_public
    assert parse(["--allow-public"]).allow_public
    monkeypatch.setenv("DRUMBEAT_ALLOW_PUBLIC", "0")
    assert not parse([]).allow_public
    monkeypatch.setenv("DRUMBEAT_ALLOW_PUBLIC", "1")
    assert parse([]).allow_public


@pytest.mark.feature("X1")
@pytest.mark.parametrize(
    ("host", "own"),
    [
        ("127.0.0.1", "127.0.0.1"), ("127.0.0.2", "127.0.0.2"), ("localhost", "localhost"), ("::1", "[::1]"),
        ("0.0.0.0", "127.0.0.1"), ("::", "127.0.0.1"), ("10.0.0.1", "127.0.0.1"), ("fd00::1", "127.0.0.1"),
    ],
)  # fmt: skip
def test_server_always_listens_on_loopback_too(host: str, own: str) -> None:
    assert Options(Path("/home"), host=host).own_host == own


@pytest.mark.feature("X6")
@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_server_at_every_address_without_a_name_warns_that_other_machines_are_refused(host: str) -> None:
    options = parse(["--host", host, "--allow-remote"])
    assert "add --allow-host NAME" in options.name_warning
    assert host in options.name_warning
    assert parse(["--host", host, "--allow-remote", "--allow-host", "train.example"]).name_warning == ""
    assert parse(["--host", "10.1.2.3", "--allow-remote"]).name_warning == parse([]).name_warning == ""

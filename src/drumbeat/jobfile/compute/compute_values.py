"""The values of keys in compute files: names, addresses, bandwidths, options, and how a wrong one is refused."""

from __future__ import annotations

from ipaddress import AddressValueError, IPv4Network, NetmaskValueError
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator

from drumbeat.jobfile.reading.error_messages import fold, shown
from drumbeat.jobfile.reading.field_types import HOST, AsText, OneLine, complaint, pattern

LOCAL = "local"
"""The name of the built-in compute: this machine."""


def _no_local(name: str) -> str:
    if fold(name) == LOCAL:
        raise complaint(f"{shown(name)} is the built-in compute: this machine", "Give it another name.")
    return name


def _lower(value: object) -> object:
    if not isinstance(value, str):
        raise complaint(f"expected bits per second, like `200mbit` or `1gbit`, got {shown(value)}")
    return value.strip().lower().replace(" ", "")


def _network(value: str) -> str:
    try:
        network = IPv4Network(value)
    except (AddressValueError, NetmaskValueError, ValueError):
        raise complaint(f"{shown(value)} isn't an IPv4 network", "Write one like `10.77.0.0/24`.") from None
    if not 16 <= network.prefixlen <= 28:
        raise complaint(f"{shown(value)} is /{network.prefixlen}; it can be /16 to /28")
    if network.is_loopback or network.is_link_local or network.is_multicast or network.is_unspecified:
        raise complaint(f"{shown(value)} has a meaning of its own on every machine", "Write one like `10.77.0.0/24`.")
    return str(network)


def _address(value: str) -> str:
    user, at, host = value.rpartition("@")
    if at:
        raise complaint(f"{shown(value)} has a user in it", f"Write `address: {host}` and `user: {user}`.")
    return value


ComputeTitle = Annotated[
    str,
    pattern(r"[A-Za-z0-9][A-Za-z0-9_-]{0,31}", "letters, digits, `-` and `_`, at most 32, no `-` or `_` first"),
    AfterValidator(_no_local),
]
Bandwidth = Annotated[
    str,
    BeforeValidator(_lower),
    pattern(r"(?=[0-9.]*[1-9])[0-9]{1,9}(\.[0-9]{1,3})?[kmg]?bit", "bits per second, like `200mbit` or `1gbit`"),
]
Subnet = Annotated[str, AfterValidator(_network)]
Address = Annotated[str, AfterValidator(_address), HOST]
Absolute = Annotated[OneLine, pattern(r"/.*", "a path that begins with `/`")]
Home = Annotated[OneLine, pattern(r"(/|~/).*", "a path that begins with `/`, or with `~/` for the user's home")]
SshOption = Annotated[OneLine, pattern(r"[A-Za-z][A-Za-z0-9]*[ =].+", "one of ssh's own, like `ProxyJump=gate`")]
SbatchOption = Annotated[OneLine, pattern(r"-.+", "one of sbatch's own, like `--mem=64G`")]
TimeLimit = Annotated[
    AsText,
    pattern(r"0*[1-9][0-9]{0,8}|([0-9]{1,5}-)?[0-9]{1,5}:[0-5][0-9]:[0-5][0-9]", "minutes, or [D-]HH:MM:SS"),
]
Leaving = Annotated[OneLine, pattern(r"\S.*", "a path that begins with `/`, or a command")]
Word = Annotated[AsText, pattern(r"[^\s-][^\r\n]{0,1023}", "one line that doesn't begin with `-`")]

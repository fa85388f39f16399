"""Rates and subnets: pure."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Sequence

from drumbeat.protocol.errors import EngineError

_RATE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmg]?)(?:bit|bit/s|bps)?", re.IGNORECASE)
_FACTOR = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9}
_LEAST_BURST = 64 << 10
_TICK_S = 0.004
"""A kernel that looks at its queues 250 times a second must find that much in the bucket."""

_FIRST, _PREFIX = "10.128.0.0/9", 24


def bits_per_s(rate: str) -> int:
    """`200mbit` → 200,000,000. Raises EngineError."""
    match = _RATE.fullmatch(rate.strip())
    if match is None or not float(match[1]):
        raise EngineError(f"{rate!r} is no bandwidth", fix="Write it like 200mbit, 1gbit or 10gbit.")
    return round(float(match[1]) * _FACTOR[match[2].lower()])


def burst_bytes(bits: int) -> int:
    """The bucket of a token bucket filter for that rate (tc-tbf(8))."""
    return max(_LEAST_BURST, round(bits / 8 * _TICK_S))


def free_subnet(taken: Iterable[str], tries: Sequence[int]) -> ipaddress.IPv4Network:
    """A private /24 that overlaps none of the networks of this machine. tries: numbers to choose it by, in order."""
    networks = [ipaddress.ip_network(one, strict=False) for one in taken]
    first = ipaddress.ip_network(_FIRST)
    assert isinstance(first, ipaddress.IPv4Network)  # noqa: S101 - the constant above
    many = 1 << (_PREFIX - first.prefixlen)
    for number in tries:
        base = int(first.network_address) + (number % many << 32 - _PREFIX)
        found = ipaddress.IPv4Network((base, _PREFIX))
        if not any(found.overlaps(one) for one in networks if one.version == 4):
            return found
    raise EngineError("no free private subnet was found", fix="Name one in the compute's file: subnet: 10.77.0.0/24")

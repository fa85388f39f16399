"""Private subnets for labs: pure."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Sequence

from drumbeat.protocol.errors import EngineError

_FIRST, _PREFIX = "10.128.0.0/9", 24


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

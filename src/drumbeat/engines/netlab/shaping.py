"""Bandwidth limits of a lab's links: rates are parsed, and applied to devices.

`lab_holder.py` imports it, so it imports only the standard library and `model`.
"""

from __future__ import annotations

import re

from drumbeat.engines.netlab.iproute import tc
from drumbeat.model.errors import EngineError

_RATE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmg]?)(?:bit|bit/s|bps)?", re.IGNORECASE)
_FACTOR = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9}
_MIN_BURST = 64 << 10
_TICK_S = 0.004
"""The interval at which a kernel with 250 Hz looks at its queues; the bucket must hold what is sent in it."""


def bits_per_s(rate: str) -> int:
    """`200mbit` → 200,000,000. Raises EngineError."""
    match = _RATE.fullmatch(rate.strip())
    if match is None or not float(match[1]):
        raise EngineError(f"{rate!r} isn't a bandwidth", fix="Write it like 200mbit, 1gbit or 10gbit.")
    return round(float(match[1]) * _FACTOR[match[2].lower()])


def burst_bytes(bits: int) -> int:
    """The bucket size of a token bucket filter for a rate (tc-tbf(8))."""
    return max(_MIN_BURST, round(bits / 8 * _TICK_S))


def shape(device: str, bits: int, burst: int) -> None:
    """Limits the rate at which a device sends (tc-tbf(8)). bits: per second, 0 = no limit. burst: in bytes."""
    if bits:
        rate = ["tbf", "rate", f"{bits}bit", "burst", str(burst), "latency", "50ms"]
        tc("qdisc", "replace", "dev", device, "root", *rate)

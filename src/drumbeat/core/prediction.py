"""Predicts the efficiency of a data-parallel training at N nodes from one node's step and the network. Pure.

The model: each rank computes as it does alone, and averages its gradients by a ring all-reduce, a part of which is
hidden behind the computation. Sizes in bytes, times in seconds.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

ASSUMED_OVERLAP = 0.5
"""The share of the computation behind which gradients travel, where it wasn't measured: most of a backward pass, which
is two thirds of a step, without its beginning."""
BUCKET_BYTES = 25 << 20
"""Gradients travel in buckets of this size (DistributedDataParallel); the last one has nothing to hide behind."""
TCP_SHARE = 0.95
"""Of a link's nominal rate, what TCP carries: 1,448 of 1,514 bytes of each frame, and acknowledgements."""
_NETWORK = re.compile(r"(\d+(?:\.\d+)?)([kmg])(?:bit/s|bit|bps)(?:/(.*))?", re.IGNORECASE)
_TIME = re.compile(r"(\d+(?:\.\d+)?)\s*(us|µs|ms|s)", re.IGNORECASE)
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmg]?)(i?)b", re.IGNORECASE)
_FACTORS = {"": 0, "k": 1, "m": 2, "g": 3}
_SECONDS = {"us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0}


class ScalingLimit(StrEnum):
    """The bottleneck of a training at a number of nodes."""

    COMPUTE = "compute"
    SYNC = "sync"
    DATA = "data"


@dataclass(frozen=True)
class StepProfile:
    """A training step of one node without other nodes."""

    step_s: float
    """All of it, the wait for data included."""
    gradient_bytes: float
    data_s: float = 0.0
    overlap: float = ASSUMED_OVERLAP
    """The share of the computation behind which gradients can travel."""
    last_bytes: float = -1
    """Gradients that are ready only when nothing is left to hide them behind; -1 = the last bucket."""
    extra_s: float = 0.0
    """What averaging adds on any network, such as copying; known where two nodes were measured."""

    @property
    def compute_s(self) -> float:
        """The step without the wait for data."""
        return max(0.0, self.step_s - self.data_s)

    @property
    def last_share(self) -> float:
        """Which part of the gradients can't be hidden."""
        last = min(self.gradient_bytes, BUCKET_BYTES) if self.last_bytes < 0 else self.last_bytes
        return last / self.gradient_bytes if self.gradient_bytes else 0.0


@dataclass(frozen=True)
class NetworkSpeed:
    """What TCP carries between two nodes, and how long a round trip takes."""

    bits_per_s: float
    round_trip_s: float


@dataclass(frozen=True)
class Prediction:
    """A training at some number of nodes."""

    nodes: int
    ranks: int
    step_s: float
    sync_s: float
    """The whole time for which gradients travel."""
    exposed_s: float
    """The part of it that the step waits for."""
    efficiency: float
    """Against as many nodes that need not wait for each other."""
    limit: ScalingLimit


def predict(profile: StepProfile, network: NetworkSpeed, nodes: int, ranks_per_node: int = 1) -> Prediction:
    """Predicts one number of nodes.

    ranks_per_node: the ring passes each node once, so that its link carries the bytes of one rank. Within a node the
    gradients cost nothing: `profile` is of a node whose ranks all train.
    """
    sync = sync_s(profile.gradient_bytes, network, nodes, ranks_per_node)
    last = sync * profile.last_share
    exposed = last + max(0.0, sync - last - profile.overlap * profile.compute_s)
    exposed += profile.extra_s if nodes > 1 else 0.0
    step = profile.step_s + exposed
    parts = {ScalingLimit.SYNC: exposed, ScalingLimit.DATA: profile.data_s, ScalingLimit.COMPUTE: profile.compute_s}
    limit = max(parts, key=lambda name: parts[name])
    return Prediction(nodes, nodes * ranks_per_node, step, sync, exposed, profile.step_s / step if step else 1.0, limit)


def sync_s(gradient_bytes: float, network: NetworkSpeed, nodes: int, ranks_per_node: int = 1) -> float:
    """Returns the time of a ring all-reduce over R ranks (Patarasuk and Yuan, 2009): 2(R-1)/R of the bytes over the
    slowest link, in 2(R-1) steps of which each waits for half a round trip, where it leaves a node.
    """
    if nodes < 2:
        return 0.0
    ranks = nodes * ranks_per_node
    buckets = max(1, math.ceil(gradient_bytes / BUCKET_BYTES))
    transfer = 2 * (ranks - 1) / ranks * gradient_bytes * 8 / network.bits_per_s
    return transfer + 2 * (nodes - 1) * network.round_trip_s / 2 * buckets


def calibrated(alone: StepProfile, network: NetworkSpeed, step_of_two_s: float) -> StepProfile:
    """Returns the profile with what a step of two nodes shows on a network.

    A step that waits less than the last bucket takes had fewer bytes left over. One that waits longer had no more
    computation to hide the others behind. What it waits beyond all of the transfer isn't the network's.
    """
    waited, sync = max(0.0, step_of_two_s - alone.step_s), sync_s(alone.gradient_bytes, network, 2)
    if not sync or not alone.compute_s:
        return alone
    if waited >= sync:
        return replace(alone, overlap=0.0, extra_s=waited - sync)
    hidden = min(1.0, (sync - waited) / alone.compute_s)
    if waited < sync * alone.last_share:
        return replace(alone, last_bytes=alone.gradient_bytes * waited / sync, overlap=max(alone.overlap, hidden))
    return replace(alone, overlap=hidden)


def describe_limit(one: Prediction, profile: StepProfile) -> str:
    """Returns in words what limits a training at so many nodes."""
    if one.limit is ScalingLimit.DATA:
        return f"data: a step waits {_ms(profile.data_s)} for it, on any number of nodes"
    if one.limit is ScalingLimit.SYNC:
        more = f"; averaging takes {_ms(profile.extra_s)} more" if profile.extra_s else ""
        seen = one.exposed_s - profile.extra_s
        return f"sync: {_ms(seen)} of the {_ms(one.sync_s)} that gradients travel aren't hidden{more}"
    if one.exposed_s > 0.01 * one.step_s:
        return f"compute; sync adds {_ms(one.exposed_s)}"
    return "compute"


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms" if seconds >= 0.01 else f"{seconds * 1000:.1f} ms"


def largest_efficient(predictions: Sequence[Prediction], least: float = 0.8) -> Prediction | None:
    """Returns the prediction with the most nodes whose efficiency is at least so much."""
    return max((one for one in predictions if one.efficiency >= least), key=lambda one: one.nodes, default=None)


# --- what a user writes -----------------------------------------------------------------------------------------
def parse_network(text: str) -> NetworkSpeed:
    """Reads `1gbit/200us`, `200mbit` or `10 Gbit/s/100us`, a nominal rate and a round trip. Raises ValueError."""
    match = _NETWORK.fullmatch("".join(text.split()))
    if not match or not float(match[1]):
        raise ValueError(f"{text!r} is no network; write it like 1gbit/200us")
    bits = float(match[1]) * 1000 ** _FACTORS[match[2].lower()]
    return NetworkSpeed(bits * TCP_SHARE, parse_time(match[3]) if match[3] else 0.0)


def parse_time(text: str) -> float:
    """Reads `420ms`, `1.5s`, `200us`. Raises ValueError."""
    match = _TIME.fullmatch(text.strip())
    if not match:
        raise ValueError(f"{text!r} is no time; write it like 420ms, 1.5s or 200us")
    return float(match[1]) * _SECONDS[match[2].lower().replace("μ", "µ")]  # The Greek letter mu, and the micro sign.


def parse_size(text: str) -> float:
    """Reads `100MB`, `1.5GiB`. Raises ValueError."""
    match = _SIZE.fullmatch(text.strip())
    if not match:
        raise ValueError(f"{text!r} is no size; write it like 100MB")
    return float(match[1]) * (1024 if match[3] else 1000) ** _FACTORS[match[2].lower()]

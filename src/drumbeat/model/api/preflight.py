"""The pre-flight of a job as the API shows it."""

from __future__ import annotations

from dataclasses import dataclass

from drumbeat.model.preflight import UNKNOWN


@dataclass(frozen=True)
class NodePreflightView:
    """What one node measured of itself; -1 where a number isn't known."""

    node: int
    machine: str
    host: str
    interface: str
    """On which the ranks of other nodes reach it; "" = not known."""
    clock_ms: int
    """How far its clock is ahead of those that it was compared with."""
    free_bytes: int = UNKNOWN
    write_ms: int = UNKNOWN
    """How long its disk took for 1 MiB."""
    gpus: int = UNKNOWN
    environment: str = ""
    """The beginning of the hash of what its ranks run in; nodes of which it differs run no job together."""
    elapsed_ms: int = 0


@dataclass(frozen=True)
class LinkView:
    """The link between two nodes; -1 where a number was not measured."""

    node: int
    peer: int
    out_bits_per_s: int
    """From `node` to `peer`."""
    in_bits_per_s: int
    round_trip_us: int
    error: str = ""
    """Why `node` can't call `peer`; "" = it can, or there was no time to try."""


@dataclass(frozen=True)
class PreflightView:
    """What the nodes of the present attempt measured before their ranks started."""

    sentence: str
    """The worst node first."""
    problems: tuple[str, ...]
    nodes: tuple[NodePreflightView, ...]
    links: tuple[LinkView, ...]

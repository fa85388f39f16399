"""What a node measures of itself and of its links before the ranks start: its part of the pre-flight.

Numbers are integers, so that each has one form on the wire.
"""

from __future__ import annotations

from dataclasses import dataclass

UNKNOWN = -1
"""In place of a number: it was not measured."""


@dataclass(frozen=True)
class LinkCheck:
    """The link between two nodes, measured by the node that called the other one."""

    peer: int
    """The node that was called."""
    out_bits_per_s: int = UNKNOWN
    """Received by the peer."""
    in_bits_per_s: int = UNKNOWN
    """Received from the peer."""
    round_trip_us: int = UNKNOWN
    """The shortest round trip of one byte."""
    clock_ms: int = 0
    """How far the peer's clock is ahead."""
    error: str = ""
    """Why the peer can't be reached; "" = it can, or there was no time to try."""

    @property
    def bits_per_s(self) -> int:
        """The slower direction, UNKNOWN where one was not measured."""
        return min(self.out_bits_per_s, self.in_bits_per_s)


@dataclass(frozen=True)
class NodeCheck:
    """The pre-flight of one node."""

    links: tuple[LinkCheck, ...] = ()
    """To the peers that this node called: each pair of nodes is measured from one side."""
    free_bytes: int = UNKNOWN
    """On the file system of the attempt's folder."""
    write_ms: int = UNKNOWN
    """How long the disk took for `node.preflight.preflight.WRITTEN_BYTES`."""
    gpus: int = UNKNOWN
    """GPUs of the machine that this node's processes may open."""
    elapsed_ms: int = 0
    """From the moment at which all nodes were there."""

"""Leases of servers: who may hold one beside whom, and how long one lasts without a beat."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import Enum, auto

LEASE_TIMEOUT = timedelta(seconds=15)
"""How long a server may be silent before another one replaces it; several times the interval between beats."""


class Ownership(Enum):
    """Whether a server has the store to itself."""

    ALONE = auto()
    """No other server can be running (a file lock says so): the jobs of earlier servers are this one's at once."""
    SHARED = auto()
    """Other servers may be running: a silent one is watched for a while before its jobs are claimed."""


@dataclass(frozen=True)
class LiveServer:
    """A server that hasn't been replaced and hasn't left. address: on its machine. doors: where agents on other
    machines call it, by compute.
    """

    token: int
    address: str
    doors: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])

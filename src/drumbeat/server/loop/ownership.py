"""The lease of a store: one server over it is active, and the others stand by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta

LEASE_TIMEOUT = timedelta(seconds=5)
"""How long the active server keeps a lease that it doesn't renew; several times the interval between renewals."""


@dataclass(frozen=True)
class LiveServer:
    """A server process over a store: the active one, or one that stands by."""

    token: int
    address: str
    """Where agents on its machine call it."""
    agent_urls: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """Where agents on other machines call it, by compute."""
    url: str = ""
    """Where clients and browsers call it."""
    is_active: bool = False

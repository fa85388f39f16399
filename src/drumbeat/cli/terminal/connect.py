"""Makes the client of the current command, here alone."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from drumbeat.client import Client


@dataclass(frozen=True)
class Wish:
    """How to reach a server. idle_stop_s: for one that is started now; None = as configured."""

    autostart: bool = True
    idle_stop_s: float | None = None


OPEN = ExitStack()
"""The connections of the current command; closed at its end."""


def _make_client(wish: Wish) -> Client:
    from drumbeat.client import Client  # Imports httpx, which help and version don't need.

    client = Client(autostart=wish.autostart, idle_stop_s=wish.idle_stop_s)
    OPEN.callback(client.close)
    return client


MAKER: ContextVar[Callable[[Wish], Client]] = ContextVar("maker", default=_make_client)
"""Makes the client; a test sets another one."""


def connect(*, autostart: bool = True, idle_stop_s: float | None = None) -> Client:
    """Returns a client of this user's server, which is started if need be."""
    return MAKER.get()(Wish(autostart, idle_stop_s))

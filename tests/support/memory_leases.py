"""The leases of servers over a store in memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta

from drumbeat.ports import (
    LiveServer,
    Ownership,
)  # fmt: skip
from drumbeat.protocol.errors import StaleError
from tests.support.memory_shelf import LEFT, Shelf


class MemoryLeases:
    """The part of the `Store` port that is about leases."""

    def __init__(self, shelf: Shelf, monotonic: Callable[[], float], lease_timeout: timedelta) -> None:
        self.shelf, self._monotonic = shelf, monotonic
        self._silent_s = lease_timeout.total_seconds()
        self._heard: dict[int, tuple[int, float]] = {}

    def lease(self, ownership: Ownership, *, address: str = "") -> int:
        shelf = self.shelf
        with shelf.lock:
            token = shelf.next("token")
            replaced = set(shelf.servers) if ownership is Ownership.ALONE else set[int]()
            shelf.servers[token], shelf.places[token] = 0, LiveServer(token, address)
            self._replace(token, replaced)
            return token

    def leave(self, token: int) -> None:
        with self.shelf.lock:
            if token in self.shelf.servers:
                self.shelf.servers[token] = LEFT

    def live_servers(self) -> list[LiveServer]:
        with self.shelf.lock:
            live = [token for token, beats in self.shelf.servers.items() if beats != LEFT]
            there = [self.shelf.places[token] for token in sorted(live, reverse=True)]
            return [one for one in there if one.address]

    def show_doors(self, token: int, doors: Mapping[str, tuple[str, ...]]) -> None:
        with self.shelf.lock:
            self.shelf.places[token] = replace(self.shelf.places[token], doors=dict(doors))

    def beat(self, token: int) -> None:
        with self.shelf.lock:
            self._require_live(token)
            self.shelf.servers[token] += 1

    def claim(self, token: int) -> list[str]:
        with self.shelf.lock:
            self._require_live(token)
            now = self._monotonic()
            for other, beats in self.shelf.servers.items():
                if self._heard.get(other, (None, 0.0))[0] != beats:
                    self._heard[other] = (beats, now)
            since = {other: now - at for other, (_, at) in self._heard.items() if other in self.shelf.servers}
            silent = {other for other, for_s in since.items() if other != token and for_s >= self._silent_s}
            left = {other for other, beats in self.shelf.servers.items() if beats == LEFT}
            return self._replace(token, silent | left)

    def _replace(self, token: int, replaced: set[int]) -> list[str]:
        """Hands what those servers held, and isn't done with, to this one."""
        shelf = self.shelf
        for other in replaced:
            del shelf.servers[other]
        pending = {one.job for one in shelf.effects.values()} | {job for _, job, _, _ in shelf.held}
        taken = [
            name
            for name, record in shelf.records.items()
            if record.lease in replaced and (name in pending or not record.job.state.is_terminal)
        ]
        for name in taken:
            shelf.records[name] = replace(shelf.records[name], lease=token)
        return taken

    def _require_live(self, token: int) -> None:
        if self.shelf.servers.get(token, LEFT) == LEFT:
            raise StaleError(f"server {token} has been replaced")

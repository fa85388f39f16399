"""The addresses that agents call: this server's for each compute, and those of standby servers.

An agent gets them when its gang is started and again with every directive, so that it can reach another server when
the one that it knows is gone.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from drumbeat.jobfile.compute.remote_compute import RemoteCompute
from drumbeat.model.errors import DrumbeatError, EngineError, UnreachableError
from drumbeat.ports.engines import AgentListeners
from drumbeat.server.computes.address_claims import AddressClaims
from drumbeat.server.computes.engines import Engines
from drumbeat.server.loop.loop import Loop
from drumbeat.server.loop.ownership import LiveServer

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Endpoints:
    """The addresses of this server."""

    here: tuple[str, ...] = ()
    """URLs for agents on the server's own machine."""
    listeners: AgentListeners | None = None
    """Listeners for agents on other machines; None = only agents of this machine can call."""
    url: str = ""
    """URL for clients and browsers."""

    @property
    def address(self) -> str:
        """The URL under which other servers list this one, "" = none."""
        return self.here[0] if self.here else ""


class AgentAddresses:
    """Determines the addresses that agents get. Thread-safe."""

    def __init__(self, loop: Loop, engines: Engines, endpoints: Endpoints) -> None:
        self.here, self.listeners = endpoints.here, endpoints.listeners
        self._loop, self._engines = loop, engines
        self._open: dict[str, tuple[str, ...]] = {}
        """URLs for the agents of each compute that can call this server."""
        self._troubles: dict[str, str] = {}
        self._others: tuple[LiveServer, ...] = ()
        self._shown: Mapping[str, tuple[str, ...]] = {}
        """The URLs that were last published to the other servers."""
        self._claims = AddressClaims(engines, loop.clock)
        self._inherited: frozenset[str] | None = None
        """Listeners' addresses of an earlier server, which its agents may still call. None = not read yet."""

    def open_for(self, compute: str) -> tuple[str, ...]:
        """Listens for the agents of a compute, and returns the URLs, those of other servers last.

        Raises EngineError, UnreachableError.
        """
        try:
            self._open[compute] = own = self._opened(compute)
        except DrumbeatError:
            self._open.pop(compute, None)
            raise
        return (*own, *self._elsewhere(compute, own))

    def _opened(self, compute: str) -> tuple[str, ...]:
        engine = self._engines.get(compute)
        if engine is None:
            raise EngineError("the compute has been deleted")
        addresses = self._claims.claim(compute, engine)
        if not addresses:
            return self.here
        if self.listeners is None:
            raise EngineError("this server listens for agents on its own machine only")
        return self.listeners.urls(addresses)

    def ips(self, compute: str) -> dict[str, tuple[str, ...]]:
        """Returns the names by which the agents of a compute call this server, with the IP addresses of each; {} =
        they are on its own machine.

        Listens there if need be. Raises EngineError, UnreachableError.
        """
        if compute not in self._open:
            self.open_for(compute)
        own = self._open.get(compute, ())
        if own == self.here or self.listeners is None:
            return {}
        ips = self.listeners.ips()
        names = [urlsplit(url).hostname or "" for url in own]
        if lost := [name for name in names if name not in ips]:
            raise UnreachableError(f"the server doesn't listen on {', '.join(lost)} at present")
        return {name: ips[name] for name in names}

    def require(self, address: str) -> None:
        """Raises EngineError unless the server can listen for agents on this address now."""
        try:
            if self.listeners is not None:
                self.listeners.require(address)
        except UnreachableError as error:
            raise EngineError(error.what, where=error.where, fix=error.fix) from error

    def authority(self, servers: Sequence[str]) -> str:
        """Returns the CA certificate (PEM) with which agents verify these servers; "" = all are on this machine."""
        is_remote = any(each.startswith("https:") for each in servers)
        return self.listeners.ca if self.listeners is not None and is_remote else ""

    def current(self, compute: str) -> tuple[str, ...]:
        """Returns the URLs for the agents of a compute as far as they are known; opens no listener."""
        own = self._open.get(compute, ())
        return (*own, *self._elsewhere(compute, own)) if own else ()

    def _elsewhere(self, compute: str, own: tuple[str, ...]) -> list[str]:
        if own == self.here:
            return list(self.others)
        return [place for one in self._others for place in one.agent_urls.get(compute, ())]

    @property
    def others(self) -> tuple[str, ...]:
        """The URLs of the other servers, the newest first."""
        return tuple(one.address for one in self._others)

    @property
    def active_url(self) -> str:
        """The URL of the active server while this one stands by; "" = unknown."""
        return next((one.url for one in self._others if one.is_active), "")

    def look(self) -> None:
        """Opens listeners for all gangs, publishes their URLs to the other servers, and reads theirs.

        A standby server does so, too, so that agents learn its URLs before they need them.
        """
        names = self._names()
        if self.listeners is not None:
            self.listeners.refresh(list(names.values()))
            self._close_unused(self.listeners)
        store = self._loop.store
        if store.is_alone:
            return
        for compute in [name for name in self._engines if store.reservations(name)]:
            if self.listeners is not None and self.listeners.awaits(names.get(compute, "")):
                self._open.pop(compute, None)  # Its name is being resolved, which may take long.
            else:
                self._try_to_open(compute)
        remote = {name: urls for name, urls in self._open.copy().items() if urls != self.here}
        if remote != self._shown:
            store.publish_agent_urls(remote)
            self._shown = remote
        # A server that was killed on this machine is listed until its lease expires; it has this server's address.
        self._others = tuple(one for one in store.other_servers() if one.address not in self.here)

    def _close_unused(self, listeners: AgentListeners) -> None:
        """Closes the listeners of computes that were deleted or replaced."""
        open_ones = listeners.addresses()
        if self._inherited is None:
            self._inherited = open_ones
        for name in self._open.copy().keys() - self._engines.keys():
            self._open.pop(name, None)
        if not open_ones or (far := self._claims.far()) is None:
            return
        if self._inherited and not any(self._loop.store.reservations(name) for name in far):
            self._inherited = frozenset()
        self._claims.close_unused(listeners, open_ones, self._inherited)

    def _names(self) -> dict[str, str]:
        """Returns the server's address from the file of each compute, by compute."""
        specs = {name: one.spec for name, one in self._engines.all().items()}
        remote = {name: spec for name, spec in specs.items() if isinstance(spec, RemoteCompute)}
        return {name: spec.server_address for name, spec in remote.items() if spec.server_address}

    def _try_to_open(self, compute: str) -> None:
        try:
            self.open_for(compute)
        except DrumbeatError as error:
            if self._troubles.get(compute) != str(error):
                log.warning("agents of compute %s can't call this server: %s", compute, error)
            self._troubles[compute] = str(error)
        else:
            self._troubles.pop(compute, None)

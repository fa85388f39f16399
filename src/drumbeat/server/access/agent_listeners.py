"""Doors for agents on other machines: which addresses are listened at, on which port, and what the server shows there.

Control's threads open doors; the event loop, once it runs, lets agents in (`doorway`). Until then they wait in the
listeners' queues.
"""

from __future__ import annotations

import contextlib
import json
import logging
import socket
import threading
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from drumbeat.model.api.server import DoorView
from drumbeat.model.errors import DrumbeatError
from drumbeat.ports.clock import Clock
from drumbeat.server.access.listen_addresses import HostAddress, address_of, literal, not_listened, plain
from drumbeat.server.access.name_lookups import NameLookups
from drumbeat.server.home import write_whole
from drumbeat.server.options import quiet_ports

if TYPE_CHECKING:
    import ssl

    from drumbeat.server.access.certificate import Certificate
    from drumbeat.server.access.certificate_authority import Authority

log = logging.getLogger("drumbeat.server")


@dataclass(frozen=True)
class Door:
    """An address that is listened at: as many listeners as it has IP addresses."""

    address: HostAddress
    port: int
    listeners: tuple[socket.socket, ...]

    @property
    def host(self) -> str:
        """As agents call it: what `Host` says."""
        return f"{self.address.host}:{self.port}"


class Tending(Protocol):
    """Whatever lets in those who come to a listener, until it is shut down, and then closes it."""

    def tend(self, listener: socket.socket) -> None:
        """From any thread."""
        ...


@dataclass(frozen=True)
class HandshakePatience:
    """How long strangers may take, and how many connections the server has at once, as `Connections` says."""

    handshake_s: float = 10.0
    head_s: float = 10.0
    most: int = 0


@dataclass(frozen=True)
class DoorRules:
    """Where the doors' things lie, and what is allowed. ports: the file of the addresses that were open."""

    authority: Path
    ports: Path
    allow_public: bool = False
    patience: HandshakePatience = field(default_factory=HandshakePatience)


class TlsDoors:
    """Passes as `ports.Doors`. Safe from any thread."""

    def __init__(self, rules: DoorRules, clock: Clock) -> None:
        self.rules, self._clock = rules, clock
        self._lock = threading.Lock()
        self._ports = _read(rules.ports)
        # Replaced, never changed: the event loop reads it without the lock.
        self._doors: dict[str, Door] = {}
        self._own: tuple[Authority, Certificate] | None = None
        self._tending: Tending | None = None
        self._lost: set[str] = set()
        """Addresses at which the server is to listen and can't yet, or can't any more."""
        self._lookups = NameLookups(lambda name: address_of(name, allow_public=rules.allow_public))
        self._troubles: dict[str, str] = {}
        """Why the server can't follow a name, as it was logged last."""

    @property
    def ca(self) -> str:
        """The authority's certificate. Raises EngineError."""
        with self._lock:
            return self._kept()[0].pem

    def require(self, address: str) -> None:
        """Raises EngineError, UnreachableError unless it could be listened there now."""
        address_of(address, allow_public=self.rules.allow_public).here()

    def urls(self, addresses: Sequence[str]) -> tuple[str, ...]:
        """Where agents find the server, for each address."""
        # Outside of the lock, because names may take their time.
        wanted = [self._known(plain(one)) for one in addresses]
        with self._lock:
            return tuple(f"https://{self._door(address).host}" for address in wanted)

    def _known(self, name: str) -> HostAddress:
        door = self._doors.get(name)
        try:
            return door.address if door else address_of(name, allow_public=self.rules.allow_public)
        except DrumbeatError:
            if not literal(name):
                with self._lock:
                    self._lost.add(name)
            raise

    def awaits(self, address: str) -> bool:
        """Whether it is a name that a look will listen at, once its addresses are known."""
        return not literal(address) and plain(address) in self._lost

    def look(self, names: Collection[str]) -> None:
        """Listens again where an address was lost and came back, and where a name stands for other addresses now.

        names: those that computes have. What they stand for is looked up meanwhile, and followed by a later look.
        """
        named = {name for one in names if not literal(name := plain(one))}
        with self._lock:
            self._lost = {one for one in self._lost if literal(one) or one in named}
            wanted = {*self._doors, *self._lost}
        for name in wanted:
            if name in self._doors or literal(name):
                with contextlib.suppress(DrumbeatError):  # It was logged when the address was lost.
                    self.urls([name])
        for name, answer in self._lookups.answers(wanted & named).items():
            try:
                self._follow(name, answer)
            except DrumbeatError as error:
                if self._troubles.get(name) != str(error):
                    log.warning("the server can't follow a name: %s", error)
                self._troubles[name] = str(error)
            else:
                self._troubles.pop(name, None)

    def addresses(self) -> frozenset[str]:
        """Returns where it listens, is to listen, or would listen after a restart."""
        with self._lock:
            return frozenset({*self._doors, *self._lost, *self._ports})

    def close_unused(self, candidates: Collection[str], used: Collection[str]) -> None:
        """Stops listening at those candidates of `addresses` that aren't used, and forgets them."""
        with self._lock:
            for name in frozenset(candidates) - {plain(one) for one in used}:
                if name in self._doors:
                    log.info("agents are no longer listened for at %s: no compute has this address", name)
                self._shut(name)
                self._lost.discard(name)
                if name in self._ports:
                    self._remember({one: port for one, port in self._ports.items() if one != name})

    def open_again(self) -> None:
        """Opens what was open when the server ended; agents of its jobs look for it there."""
        for name in list(self._ports):
            try:
                self.urls([name])
            except DrumbeatError as error:
                log.warning("a door that was open stays shut: %s", error)
                with self._lock:
                    self._lost.add(name)

    def hosts(self) -> frozenset[str]:
        """What `Host` may say."""
        return frozenset(door.host for door in self._doors.values())

    def context(self) -> ssl.SSLContext:
        """What the next connection is to be made with. Raises EngineError."""
        assert self._own is not None  # noqa: S101 - no door is open without
        return self._own[1].context()

    def shown(self) -> list[DoorView]:
        """The doors that are open."""
        own = self._own
        return [DoorView(door.address.name, door.port, own[1].end) for door in self._doors.values()] if own else []

    def begin(self, tending: Tending) -> None:
        """From now on that one lets agents in."""
        with self._lock:
            self._tending = tending
            for listener in [each for door in self._doors.values() for each in door.listeners]:
                tending.tend(listener)

    def end(self) -> None:
        """From now on nobody does; agents that come wait in the queue."""
        with self._lock:
            self._tending = None

    def close(self) -> None:
        """Stops listening. The addresses and ports are known to the next start."""
        with self._lock:
            self._tending = None
            self._lost.clear()
            for name in list(self._doors):
                self._shut(name)

    def _door(self, address: HostAddress) -> Door:
        door = self._doors.get(address.name)
        try:
            here = (door.address if door else address).here()
        except DrumbeatError as error:
            if door:
                # It may come back, as another interface's; a name may stand for another address then.
                log.warning("agents don't find this server any more: %s", error)
                self._shut(address.name)
                self._lost.add(address.name)
            raise
        return door or self._opened(here)

    def _follow(self, name: str, answer: HostAddress | DrumbeatError) -> None:
        """Listens at the addresses of this machine that a name has come to stand for.

        Those that it doesn't stand for any more stay open while the machine has them: an answer may lack some, and
        agents may remember an old one. Raises EngineError, UnreachableError.
        """
        if isinstance(answer, DrumbeatError):
            raise answer
        with self._lock:
            door = self._doors.get(name)
            if door is None and name not in self._lost:
                return
            here = answer.here()
            if door is None:
                self._opened(here)
            elif new := tuple(ip for ip in here.ips if ip not in door.address.ips):
                self._extend(door, replace(here, ips=new))

    def _extend(self, door: Door, new: HostAddress) -> None:
        try:
            listeners = new.listeners(door.port)
        except OSError as error:
            raise not_listened(f"{new.name} ({', '.join(new.ips)}), port {door.port}", error) from None
        address = replace(door.address, ips=(*door.address.ips, *new.ips))
        self._put(replace(door, address=address, listeners=(*door.listeners, *listeners)), listeners)

    def _opened(self, address: HostAddress) -> Door:
        _, certificate = self._kept()
        certificate.cover([address.name])
        listeners = self._listening(address)
        door = Door(address, listeners[0].getsockname()[1], listeners)
        self._put(door, listeners)
        self._keep(door)
        self._lost.discard(address.name)
        return door

    def _put(self, door: Door, new: Sequence[socket.socket]) -> None:
        self._doors = {**self._doors, door.address.name: door}
        if self._tending is not None:
            for listener in new:
                self._tending.tend(listener)
        log.info("agents are listened for at https://%s (%s)", door.host, ", ".join(door.address.ips))

    def _listening(self, address: HostAddress) -> tuple[socket.socket, ...]:
        """On the address's port of last time, else on that of the other doors, else on a free one."""
        known = [self._ports.get(address.name, 0), *(door.port for door in self._doors.values()), *self._ports.values()]
        for port in dict.fromkeys([*filter(None, known), *quiet_ports()]):
            with contextlib.suppress(OSError):
                return address.listeners(port)
        try:
            return address.listeners(0)
        except OSError as error:
            raise not_listened(address.name, error) from None

    def _shut(self, name: str) -> None:
        door = self._doors.get(name)
        if door is None:
            return
        self._doors = {key: one for key, one in self._doors.items() if key != name}
        for listener in door.listeners:
            # The task that accepts connections wakes up by this and closes it; closing it here would race with that.
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            if self._tending is None:
                listener.close()

    def _kept(self) -> tuple[Authority, Certificate]:
        if self._own is None:
            # Not before it is needed: it is a tenth of the server's start.
            from drumbeat.server.access.certificate import Certificate
            from drumbeat.server.access.certificate_authority import Authority

            authority = Authority.of(self.rules.authority, self._clock.now())
            self._own = authority, Certificate(authority, self._clock.now)
        return self._own

    def _keep(self, door: Door) -> None:
        name, port = door.address.name, door.port
        if self._ports.get(name) == port:
            return
        self._remember({**self._ports, name: port})

    def _remember(self, ports: dict[str, int]) -> None:
        self._ports = ports
        try:
            write_whole(self.rules.ports, json.dumps(ports, indent=1) + "\n")
        except OSError as error:
            log.warning("the next start won't know the addresses at which agents are listened for now: %s", error)


def _read(path: Path) -> dict[str, int]:
    with contextlib.suppress(OSError, ValueError, AttributeError):
        found = json.loads(path.read_text()).items()
        return {str(name): port for name, port in found if isinstance(port, int) and 0 < port < 65536}
    return {}

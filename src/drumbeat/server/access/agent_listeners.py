"""Listeners for agents on other machines: their addresses and ports, and the certificate that the server presents.

Threads of `control` open listeners; connections are accepted by the event loop (`tls_server.py`) once it runs. Until
then they wait in the listeners' backlogs.
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

from drumbeat.model.api.server import AgentListenerView
from drumbeat.model.errors import DrumbeatError
from drumbeat.ports.clock import Clock
from drumbeat.server.access.listen_addresses import HostAddress, literal, not_listened, plain, resolve_address
from drumbeat.server.access.name_lookups import NameLookups
from drumbeat.server.home import write_whole
from drumbeat.server.options import quiet_ports

if TYPE_CHECKING:
    import ssl

    from drumbeat.server.access.certificate import Certificate
    from drumbeat.server.access.certificate_authority import Authority, Issued

log = logging.getLogger("drumbeat.server")


@dataclass(frozen=True)
class OpenListener:
    """An address on which the server listens, with a socket for each of its IP addresses."""

    address: HostAddress
    port: int
    sockets: tuple[socket.socket, ...]

    @property
    def host(self) -> str:
        """Host and port as agents send them in the `Host` header."""
        return f"{self.address.host}:{self.port}"


class ConnectionAcceptor(Protocol):
    """Accepts the connections of a listener until it is shut down, and closes it then."""

    def accept_from(self, listener: socket.socket) -> None:
        """Begins to accept connections. May be called from any thread."""
        ...


@dataclass(frozen=True)
class HandshakeLimits:
    """Limits for unauthenticated clients. most: connections of the server at once, see `Connections`."""

    handshake_s: float = 10.0
    head_s: float = 10.0
    most: int = 0


@dataclass(frozen=True)
class AgentListenerRules:
    """Settings of the listeners. authority: the CA's file. ports: the file that keeps the open addresses and ports."""

    authority: Path
    ports: Path
    allow_public: bool = False
    limits: HandshakeLimits = field(default_factory=HandshakeLimits)


class TlsAgentListeners:
    """Listens for agents by TLS. Implements `ports.AgentListeners`. Thread-safe."""

    def __init__(self, rules: AgentListenerRules, clock: Clock) -> None:
        self.rules, self._clock = rules, clock
        self._lock = threading.Lock()
        self._ports = _read(rules.ports)
        # Replaced as a whole, because the event loop reads it without the lock.
        self._listeners: dict[str, OpenListener] = {}
        self._own: tuple[Authority, Certificate] | None = None
        self._acceptor: ConnectionAcceptor | None = None
        self._files: dict[Path, tuple[frozenset[str], Issued | None]] = {}
        """What certificates in files cover, by file."""
        self._lost: set[str] = set()
        """Addresses on which the server should listen but can't at present."""
        self._lookups = NameLookups(lambda name: resolve_address(name, allow_public=rules.allow_public))
        self._problems: dict[str, str] = {}
        """The last logged reason why a name can't be resolved, by name."""

    @property
    def ca(self) -> str:
        """The CA's certificate (PEM). Raises EngineError."""
        with self._lock:
            return self._authority()[0].pem

    def certificate_for(self, addresses: Collection[str]) -> Certificate:
        """Returns the server's certificate, which covers these addresses, too. Raises EngineError."""
        with self._lock:
            _, certificate = self._authority()
        certificate.cover(addresses)
        return certificate

    def keep_certificate(self, file: Path, names: Collection[str]) -> None:
        """Writes the server's certificate for these names, with its key, to a file for another program; again when it
        is due for renewal. Raises EngineError, OSError.
        """
        with self._lock:
            authority, _ = self._authority()
            now, wanted = self._clock.now(), frozenset(names)
            before, issued = self._files.get(file, (frozenset[str](), None))
            if issued is not None and before == wanted and not issued.is_due(now) and file.exists():
                return
            from drumbeat.server.access.certificate import LIFE

            issued = authority.issue(sorted(wanted), now, LIFE)
            write_whole(file, issued.pem.decode())
            self._files[file] = wanted, issued

    def ips(self) -> dict[str, tuple[str, ...]]:
        """Returns the IP addresses on which it listens, by the name that agents call."""
        return {name: listener.address.ips for name, listener in self._listeners.items()}

    def require(self, address: str) -> None:
        """Raises EngineError or UnreachableError unless the server can listen on this address now."""
        resolve_address(address, allow_public=self.rules.allow_public).here()

    def urls(self, addresses: Sequence[str]) -> tuple[str, ...]:
        """Listens on these addresses, and returns the URL of each."""
        # Outside of the lock, because resolving a name may take long.
        wanted = [self._address(plain(one)) for one in addresses]
        with self._lock:
            return tuple(f"https://{self._listener(address).host}" for address in wanted)

    def _address(self, name: str) -> HostAddress:
        listener = self._listeners.get(name)
        try:
            return listener.address if listener else resolve_address(name, allow_public=self.rules.allow_public)
        except DrumbeatError:
            if not literal(name):
                with self._lock:
                    self._lost.add(name)
            raise

    def awaits(self, address: str) -> bool:
        """Whether this is a name that `refresh` will listen on as soon as it has been resolved."""
        return not literal(address) and plain(address) in self._lost

    def refresh(self, names: Collection[str]) -> None:
        """Listens again on addresses that have come back, and on new addresses of names.

        names: those that computes use. They are resolved in the background; a later call uses the answers.
        """
        named = {name for one in names if not literal(name := plain(one))}
        with self._lock:
            self._lost = {one for one in self._lost if literal(one) or one in named}
            wanted = {*self._listeners, *self._lost}
        for name in wanted:
            if name in self._listeners or literal(name):
                with contextlib.suppress(DrumbeatError):  # This was logged when the address was lost.
                    self.urls([name])
        for name, answer in self._lookups.answers(wanted & named).items():
            try:
                self._follow(name, answer)
            except DrumbeatError as error:
                if self._problems.get(name) != str(error):
                    log.warning("the address of a listener can't be resolved: %s", error)
                self._problems[name] = str(error)
            else:
                self._problems.pop(name, None)

    def addresses(self) -> frozenset[str]:
        """Returns the addresses on which the server listens, should listen, or would listen after a restart."""
        with self._lock:
            return frozenset({*self._listeners, *self._lost, *self._ports})

    def close_unused(self, candidates: Collection[str], used: Collection[str]) -> None:
        """Closes and forgets the listeners on candidates that aren't used. candidates: some of `addresses`."""
        with self._lock:
            for name in frozenset(candidates) - {plain(one) for one in used}:
                if name in self._listeners:
                    log.info("closed the listener for agents on %s: no compute uses this address", name)
                self._shut(name)
                self._lost.discard(name)
                if name in self._ports:
                    self._remember({one: port for one, port in self._ports.items() if one != name})

    def reopen(self) -> None:
        """Opens the listeners of the server's previous run, where agents of its jobs call."""
        for name in list(self._ports):
            try:
                self.urls([name])
            except DrumbeatError as error:
                log.warning("a listener for agents can't be opened again: %s", error)
                with self._lock:
                    self._lost.add(name)

    def hosts(self) -> frozenset[str]:
        """The values of the `Host` header that are accepted."""
        return frozenset(listener.host for listener in self._listeners.values())

    def context(self) -> ssl.SSLContext:
        """The TLS context for the next connection. Raises EngineError."""
        assert self._own is not None  # noqa: S101 - no listener is open without
        return self._own[1].context()

    def views(self) -> list[AgentListenerView]:
        """The open listeners as the API shows them."""
        own = self._own
        return (
            [
                AgentListenerView(listener.address.name, listener.port, own[1].end)
                for listener in self._listeners.values()
            ]
            if own
            else []
        )

    def start_accepting(self, acceptor: ConnectionAcceptor) -> None:
        """Has an acceptor accept the connections of all listeners, the later ones included."""
        with self._lock:
            self._acceptor = acceptor
            for each in [each for listener in self._listeners.values() for each in listener.sockets]:
                acceptor.accept_from(each)

    def stop_accepting(self) -> None:
        """Lets new connections wait in the backlogs."""
        with self._lock:
            self._acceptor = None

    def close(self) -> None:
        """Closes all listeners. Their addresses and ports are kept for the next start."""
        with self._lock:
            self._acceptor = None
            self._lost.clear()
            for name in list(self._listeners):
                self._shut(name)

    def _listener(self, address: HostAddress) -> OpenListener:
        listener = self._listeners.get(address.name)
        try:
            here = (listener.address if listener else address).here()
        except DrumbeatError as error:
            if listener:
                # The address may come back on another interface, or the name may get another address.
                log.warning("agents can no longer reach this server: %s", error)
                self._shut(address.name)
                self._lost.add(address.name)
            raise
        return listener or self._opened(here)

    def _follow(self, name: str, answer: HostAddress | DrumbeatError) -> None:
        """Listens on this machine's addresses to which a name now resolves as well.

        Listeners on its earlier addresses stay open while the machine has them: an answer may be incomplete, and
        agents may have cached an old one. Raises EngineError, UnreachableError.
        """
        if isinstance(answer, DrumbeatError):
            raise answer
        with self._lock:
            listener = self._listeners.get(name)
            if listener is None and name not in self._lost:
                return
            here = answer.here()
            if listener is None:
                self._opened(here)
            elif new := tuple(ip for ip in here.ips if ip not in listener.address.ips):
                self._extend(listener, replace(here, ips=new))

    def _extend(self, listener: OpenListener, new: HostAddress) -> None:
        try:
            sockets = new.listeners(listener.port)
        except OSError as error:
            raise not_listened(f"{new.name} ({', '.join(new.ips)}), port {listener.port}", error) from None
        address = replace(listener.address, ips=(*listener.address.ips, *new.ips))
        self._put(replace(listener, address=address, sockets=(*listener.sockets, *sockets)), sockets)

    def _opened(self, address: HostAddress) -> OpenListener:
        _, certificate = self._authority()
        certificate.cover([address.name])
        sockets = self._listening(address)
        listener = OpenListener(address, sockets[0].getsockname()[1], sockets)
        self._put(listener, sockets)
        self._keep(listener)
        self._lost.discard(address.name)
        return listener

    def _put(self, listener: OpenListener, new: Sequence[socket.socket]) -> None:
        self._listeners = {**self._listeners, listener.address.name: listener}
        if self._acceptor is not None:
            for each in new:
                self._acceptor.accept_from(each)
        log.info("listening for agents on https://%s (%s)", listener.host, ", ".join(listener.address.ips))

    def _listening(self, address: HostAddress) -> tuple[socket.socket, ...]:
        """Listens on the address's last port, else on that of the other listeners, else on a free one."""
        ports = [
            self._ports.get(address.name, 0),
            *(listener.port for listener in self._listeners.values()),
            *self._ports.values(),
        ]
        for port in dict.fromkeys([*filter(None, ports), *quiet_ports()]):
            with contextlib.suppress(OSError):
                return address.listeners(port)
        try:
            return address.listeners(0)
        except OSError as error:
            raise not_listened(address.name, error) from None

    def _shut(self, name: str) -> None:
        listener = self._listeners.get(name)
        if listener is None:
            return
        self._listeners = {key: one for key, one in self._listeners.items() if key != name}
        for each in listener.sockets:
            # This wakes the task that accepts connections, which closes the socket. Closing it here would be a race.
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            if self._acceptor is None:
                each.close()

    def _authority(self) -> tuple[Authority, Certificate]:
        if self._own is None:
            # Imported late: this takes a tenth of the server's start-up time.
            from drumbeat.server.access.certificate import Certificate
            from drumbeat.server.access.certificate_authority import Authority

            authority = Authority.load_or_create(self.rules.authority, self._clock.now())
            self._own = authority, Certificate(authority, self._clock.now)
        return self._own

    def _keep(self, listener: OpenListener) -> None:
        name, port = listener.address.name, listener.port
        if self._ports.get(name) == port:
            return
        self._remember({**self._ports, name: port})

    def _remember(self, ports: dict[str, int]) -> None:
        self._ports = ports
        try:
            write_whole(self.rules.ports, json.dumps(ports, indent=1) + "\n")
        except OSError as error:
            log.warning("the addresses of the listeners for agents can't be saved for the next start: %s", error)


def _read(path: Path) -> dict[str, int]:
    with contextlib.suppress(OSError, ValueError, AttributeError):
        ports = json.loads(path.read_text()).items()
        return {str(name): port for name, port in ports if isinstance(port, int) and 0 < port < 65536}
    return {}

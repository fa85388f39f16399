"""The router of this home as the server sees it: a process that outlives the server, its table, its numbers."""

from __future__ import annotations

import errno
import http.client
import json
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from drumbeat.model import home_socket
from drumbeat.model.errors import DrumbeatError
from drumbeat.model.programs import ROUTER
from drumbeat.model.routing_table import EndpointRoute, RouterListener, RoutingTable, table_to_json, write_table
from drumbeat.ports.engines import AgentListeners
from drumbeat.server.endpoints.router_doors import RouterDoors, free_port, is_free
from drumbeat.server.home import write_whole
from drumbeat.server.scoring_address import ScoringAddress

log = logging.getLogger(__name__)

DOOR, NUMBERS = "replicas/router.sock", "router.sock"
"""The router's own sockets in its folder (`router/listeners.py`)."""
START_TIMEOUT_S = 10.0
ANSWER_TIMEOUT_S = 2.0
_PORT = "port"
LOOPBACK = "127.0.0.1"


class RouterProgram:
    """Starts, asks and ends the router. folder: its own, in the home.

    listeners: those for agents, whose addresses replicas on other machines call, too. scoring: where clients on other
    machines call.
    """

    def __init__(
        self, folder: Path, listeners: AgentListeners | None = None, scoring: ScoringAddress | None = None
    ) -> None:
        self.folder = folder
        self._listeners, self._scoring = listeners, scoring
        self._process: subprocess.Popen[bytes] | None = None
        self._started_at = 0.0
        self._written = ""
        self._port = 0
        self._doors = RouterDoors(folder / "doors.json")
        self._problem = ""
        """Why there is no certificate, as it was last logged."""

    # --- addresses --------------------------------------------------------------------------------------------
    @property
    def replica_addresses(self) -> tuple[str, ...]:
        """Where replicas on this machine dial in."""
        return (f"{home_socket.SCHEME}{self.folder / DOOR}",)

    @property
    def replica_port(self) -> int:
        """The port at which replicas on other machines dial in, wherever their agents call the server."""
        self.folder.mkdir(mode=0o700, exist_ok=True)
        return self._doors.port

    def open_doors(self, ips: Mapping[str, tuple[str, ...]], *, is_complete: bool) -> None:
        """Has the router listen for replicas on other machines. Raises OSError.

        ips: of this machine, by the names that they call. is_complete: further ones, opened before, are closed.
        """
        self._doors.open({**({} if is_complete else self._doors.ips), **ips})

    @property
    def port(self) -> int:
        """The port at which clients call, the same for the life of the home."""
        if not self._port:
            self.folder.mkdir(mode=0o700, exist_ok=True)
            with suppress(OSError, ValueError):
                self._port = int((self.folder / _PORT).read_text())
        if not self._port:
            self._choose_port()
        return self._port

    def _choose_port(self) -> None:
        self._port = free_port(LOOPBACK)
        write_whole(self.folder / _PORT, f"{self._port}\n")

    @property
    def url(self) -> str:
        """The address below which endpoints are."""
        return f"{self.scoring_url or f'http://{LOOPBACK}:{self.port}'}/endpoints"

    @property
    def scoring_url(self) -> str:
        """Where clients on other machines call; "" = nowhere."""
        return self._scoring.url if self._scoring else ""

    @property
    def door_urls(self) -> tuple[str, ...]:
        """Where replicas on other machines dial in."""
        return tuple(
            f"https://{f'[{name}]' if ':' in name else name}:{self._doors.port}" for name in sorted(self._doors.ips)
        )

    @property
    def ca(self) -> str:
        """The certificate (PEM) by which clients recognize that address; "" = it isn't the home's authority's.

        Raises EngineError.
        """
        is_own = self._scoring is not None and not self._scoring.certificate
        return self._listeners.ca if is_own and self._listeners is not None else ""

    def _table(self, endpoints: Mapping[str, EndpointRoute]) -> RoutingTable:
        listeners, names = [RouterListener(LOOPBACK, self.port)], set[str]()
        for name, ips in self._doors.ips.items():
            names |= {name, *ips}
            listeners += [RouterListener(ip, self._doors.port, for_replicas=True) for ip in ips]
        if (one := self._scoring) is not None:
            listeners.append(RouterListener(one.host, one.port, has_tls=True, certificate=one.certificate, key=one.key))
            names |= set() if one.certificate else set(one.names)
        return RoutingTable(endpoints, tuple(dict.fromkeys(listeners)), self._certificate(names) if names else "")

    def _certificate(self, names: set[str]) -> str:
        """Returns the path of the certificate for these names, which is renewed when it is due."""
        file = self.folder / "certificate.pem"
        try:
            if self._listeners is not None:
                self._listeners.keep_certificate(file, names)
                self._problem = ""
        except (DrumbeatError, OSError) as error:
            if self._problem != str(error):
                log.warning("the router gets no certificate: %s", error)
            self._problem = str(error)
        return str(file)

    # --- what it is told and tells ----------------------------------------------------------------------------
    def write(self, endpoints: Mapping[str, EndpointRoute]) -> None:
        """Writes the table if it differs from the last one. Raises OSError."""
        self.folder.mkdir(mode=0o700, exist_ok=True)
        table = self._table(endpoints)
        text = table_to_json(table)
        if text == self._written:
            return
        write_table(str(self.folder), table)
        self._written = text

    def numbers(self) -> dict[str, Any] | None:
        """Returns what the router counts; None = it doesn't answer."""
        try:
            return self._ask()
        except (OSError, ValueError, http.client.HTTPException):
            return None

    def problem(self, numbers: dict[str, Any] | None) -> str:
        """Why clients can't call, by what `numbers` returned; "" = they can."""
        bound = _bound(numbers)
        if f"{LOOPBACK}:{self.port}" not in bound:
            return "the router is being started"
        if self._scoring is not None and self._scoring.bound not in bound:
            return f"the router can't listen at {self._scoring.bound}; {self.folder / 'router.log'} says why"
        return ""

    def door_problem(self, numbers: dict[str, Any] | None) -> str:
        """Why replicas on other machines can't dial the router; "" = they can, or there are none."""
        bound = _bound(numbers) if self._doors.ips else frozenset[str]()
        addresses = {f"{ip}:{self._doors.port}" for ips in self._doors.ips.values() for ip in ips}
        closed = ", ".join(sorted(addresses - bound))
        log_file = self.folder / "router.log"
        return (
            f"replicas can't dial the router at {closed}, where it can't listen; {log_file} says why" if closed else ""
        )

    def _ask(self) -> dict[str, Any]:
        """Raises OSError, ValueError, HTTPException."""
        connection = http.client.HTTPConnection("router", timeout=ANSWER_TIMEOUT_S)
        connection.sock = home_socket.connect(str(self.folder / NUMBERS), ANSWER_TIMEOUT_S)
        try:
            connection.request("GET", "/numbers")
            answer: dict[str, Any] = json.loads(connection.getresponse().read())
            return answer
        finally:
            connection.close()

    # --- its life ---------------------------------------------------------------------------------------------
    @property
    def is_dead(self) -> bool:
        """Whether no router is there; one that is slow to answer isn't dead."""
        process = self._process
        if process is not None and process.poll() is None and time.monotonic() - self._started_at < START_TIMEOUT_S:
            return False
        try:
            home_socket.connect(str(self.folder / NUMBERS), ANSWER_TIMEOUT_S).close()
        except OSError as error:
            return error.errno in (errno.ECONNREFUSED, errno.ENOENT)
        return False

    def keep(self) -> bool:
        """Starts the router if it isn't there. Returns whether it had to. Raises OSError."""
        if not self.is_dead:
            return False
        if not is_free(LOOPBACK, self.port) and not (self.folder / NUMBERS).exists():
            self._choose_port()  # Another program has taken it before the router was ever there.
        log.info("starting the router in %s", self.folder)
        with (self.folder / "router.log").open("ab") as out:
            self._process = subprocess.Popen(
                [sys.executable, "-m", ROUTER, str(self.folder)],
                stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True, cwd=self.folder,
            )  # fmt: skip
        self._started_at = time.monotonic()
        return True

    def end(self) -> None:
        """Ends the router: the last endpoint is gone. It answers what is under way."""
        numbers = self.numbers()
        if numbers is None:
            return
        log.info("the last endpoint is gone: the router ends")
        with suppress(ProcessLookupError, PermissionError):
            os.kill(int(numbers["pid"]), signal.SIGTERM)


def _bound(numbers: dict[str, Any] | None) -> frozenset[str]:
    """The addresses at which a router listens."""
    return frozenset(numbers["listeners"].values()) if numbers is not None else frozenset()

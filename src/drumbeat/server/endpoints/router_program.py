"""The router of this home as the server sees it: a process that outlives the server, its table, its numbers."""

from __future__ import annotations

import errno
import http.client
import json
import logging
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from drumbeat.model import home_socket
from drumbeat.model.programs import ROUTER
from drumbeat.model.routing_table import RouterListener, RoutingTable, table_to_json, write_table
from drumbeat.server.home import write_whole
from drumbeat.server.options import quiet_ports

log = logging.getLogger(__name__)

DOOR, NUMBERS = "replicas.sock", "router.sock"
"""The router's own sockets in its folder (`router/listeners.py`)."""
START_TIMEOUT_S = 10.0
ANSWER_TIMEOUT_S = 2.0
_PORT = "port"
LOOPBACK = "127.0.0.1"


class RouterProgram:
    """Starts, asks and ends the router. folder: its own, in the home."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        self._started_at = 0.0
        self._written = ""
        self._port = 0

    # --- addresses --------------------------------------------------------------------------------------------
    @property
    def replica_addresses(self) -> tuple[str, ...]:
        """Where replicas on this machine dial in."""
        return (f"{home_socket.SCHEME}{self.folder / DOOR}",)

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
        self._port = _free_port()
        write_whole(self.folder / _PORT, f"{self._port}\n")

    @property
    def url(self) -> str:
        """The address below which endpoints are."""
        return f"http://{LOOPBACK}:{self.port}/endpoints"

    @property
    def listeners(self) -> tuple[RouterListener, ...]:
        """What the router listens at."""
        return (RouterListener(LOOPBACK, self.port),)

    # --- what it is told and tells ----------------------------------------------------------------------------
    def write(self, table: RoutingTable) -> None:
        """Writes the table if it differs from the last one. Raises OSError."""
        text = table_to_json(table)
        if text == self._written:
            return
        self.folder.mkdir(mode=0o700, exist_ok=True)
        write_table(str(self.folder), table)
        self._written = text

    def numbers(self) -> dict[str, Any] | None:
        """Returns what the router counts; None = it doesn't answer."""
        try:
            return self._ask()
        except (OSError, ValueError, http.client.HTTPException):
            return None

    @property
    def is_listening(self) -> bool:
        """Whether clients can call."""
        numbers = self.numbers()
        return numbers is not None and f"{LOOPBACK}:{self.port}" in numbers["listeners"].values()

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
        if not _is_free(self.port) and not (self.folder / NUMBERS).exists():
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


def _is_free(port: int) -> bool:
    with socket.socket() as tried:
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            tried.bind((LOOPBACK, port))
        except OSError:
            return False
        return True


def _free_port() -> int:
    """Returns a port outside of the kernel's range, which other programs rarely take while the router is away."""
    for port in quiet_ports():
        if _is_free(port):
            return port
    with socket.socket() as held:
        held.bind((LOOPBACK, 0))
        return int(held.getsockname()[1])

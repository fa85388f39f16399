"""Where replicas on other machines dial in: one port for the life of the home, at the addresses that agents call."""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from drumbeat.server.home import write_whole
from drumbeat.server.options import quiet_ports

ALL = "::"


class RouterDoors:
    """The doors that are open, kept in a file, so that a server that starts leaves them open."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._kept: dict[str, Any] | None = None

    @property
    def port(self) -> int:
        """The port of all doors. Raises OSError."""
        if not self._read()["port"]:
            self._write({**self._read(), "port": free_port(ALL)})
        return int(self._read()["port"])

    @property
    def ips(self) -> dict[str, tuple[str, ...]]:
        """The addresses of this machine that are open, by the names that replicas call."""
        return {name: tuple(ips) for name, ips in self._read()["ips"].items()}

    def open(self, ips: Mapping[str, tuple[str, ...]]) -> None:
        """Keeps which ones are open. Raises OSError."""
        if ips != self.ips:
            self._write({"port": self.port, "ips": {name: list(each) for name, each in ips.items()}})

    def _read(self) -> dict[str, Any]:
        if self._kept is None:
            self._kept = {"port": 0, "ips": {}}
            with suppress(OSError, ValueError, KeyError):
                content = json.loads(self._file.read_text())
                self._kept = {"port": int(content["port"]), "ips": dict(content["ips"])}
        return self._kept

    def _write(self, kept: dict[str, Any]) -> None:
        write_whole(self._file, json.dumps(kept, indent=1) + "\n")
        self._kept = kept


def is_free(host: str, port: int) -> bool:
    """Whether a server can listen at a port of an address; `ALL` = of all addresses."""
    is_dual = host == ALL and socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if is_dual else socket.AF_INET
    try:
        socket.create_server(("" if host == ALL else host, port), family=family, dualstack_ipv6=is_dual).close()
    except OSError:
        return False
    return True


def free_port(host: str) -> int:
    """Returns a port outside of the kernel's range, which other programs rarely take while the router is away."""
    for port in quiet_ports():
        if is_free(host, port):
            return port
    with socket.socket() as held:
        held.bind(("" if host == ALL else host, 0))
        return int(held.getsockname()[1])

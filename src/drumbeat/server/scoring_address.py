"""The address at which clients on other machines call online endpoints: `--scoring`, which is kept in the home."""

from __future__ import annotations

import errno
import ipaddress
import json
import socket
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from drumbeat.model.errors import RefusedError
from drumbeat.server.home import write_whole
from drumbeat.server.options import LOOPBACK, Options

OFF = "off"
OPTION = "--scoring"
NAME = "scoring.json"


@dataclass(frozen=True)
class ScoringAddress:
    """Where the router listens for clients by TLS. names: by which clients call, the first in URLs.

    certificate, key: the paths of its files (PEM); "" = the home's authority makes one.
    """

    host: str
    port: int
    names: tuple[str, ...]
    certificate: str = ""
    key: str = ""

    @property
    def url(self) -> str:
        """The address in front of the paths of endpoints."""
        return f"https://{_bracketed(self.names[0])}:{self.port}"

    @property
    def bound(self) -> str:
        """The address as the router's numbers name it."""
        return f"{self.host}:{self.port}"


def keep(home: Path, options: Options) -> None:
    """Keeps the address of the options, if they name one. Raises RefusedError for one that can't be used; OSError."""
    file = home / NAME
    if options.scoring == OFF:
        file.unlink(missing_ok=True)
    elif options.scoring:
        address, before = _parsed(options), kept(home)
        if before is None or before.bound != address.bound:  # Else the router may listen there already.
            _require_free(address, options.scoring)
        write_whole(file, json.dumps(asdict(address), indent=1) + "\n")


def kept(home: Path) -> ScoringAddress | None:
    """Returns the address that is kept in a home; None = there is none."""
    with suppress(OSError, ValueError, TypeError, KeyError):
        content: dict[str, Any] = json.loads((home / NAME).read_text())
        names = tuple(str(one) for one in content["names"])
        return ScoringAddress(str(content["host"]), int(content["port"]), names, content["certificate"], content["key"])
    return None


def _parsed(options: Options) -> ScoringAddress:
    """Raises RefusedError."""
    text = options.scoring
    host, colon, port = text.rpartition(":")
    fix = "Such as --scoring 192.168.1.5:8443, --scoring [fd00::5]:8443, or off."
    if not colon or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
        raise RefusedError(f"{text!r} isn't HOST:PORT", where=OPTION, fix=fix)
    try:
        ip = ipaddress.ip_address("127.0.0.1" if host == "localhost" else host.removeprefix("[").removesuffix("]"))
    except ValueError:
        raise RefusedError(f"{host!r} isn't an IP address", where=OPTION, fix=fix) from None
    further = [one.partition(":")[0] for one in options.allow_hosts]
    if ip.is_unspecified and not further:
        what = "an endpoint's address needs a name, and this one means all addresses"
        raise RefusedError(what, where=f"{OPTION} {text}", fix="Add --allow-host NAME, by which clients call.")
    own = [] if ip.is_unspecified else [str(ip)]
    names = tuple(dict.fromkeys((*further, *own, *LOOPBACK)))
    files = [str(one.absolute()) if one else "" for one in (options.tls_cert, options.tls_key)]
    return ScoringAddress(str(ip), int(port), names, *files)


def _require_free(address: ScoringAddress, text: str) -> None:
    """Raises RefusedError where this machine can't listen."""
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    try:
        socket.create_server((address.host, address.port), family=family).close()
    except OSError as error:
        fix = "List this machine's addresses: ip addr." if error.errno == errno.EADDRNOTAVAIL else "Name another port."
        what = f"the router can't listen there: {error.strerror or error}"
        raise RefusedError(what, where=f"{OPTION} {text}", fix=fix) from None


def _bracketed(name: str) -> str:
    return f"[{name}]" if ":" in name else name

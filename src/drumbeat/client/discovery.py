"""Finds the server: by its URL, or by the file in its home folder.

The file of a server that is gone (another boot, another machine that shares the folder, a process that has ended) is
ignored.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from drumbeat.client.logins import read_logins
from drumbeat.model import wire
from drumbeat.model.errors import RefusedError, UnauthorizedError, VersionError

if TYPE_CHECKING:
    import ssl

PROTOCOL = 1
"""The protocol of this client; servers with another number are refused."""

YOURS = "your token for this server; an owner of it makes one: drumbeat token create NAME"


@dataclass(frozen=True)
class ServerAddress:
    """The content of a server's file."""

    url: str
    host: str
    boot_id: str
    pid: int
    version: str = ""
    protocol: int = PROTOCOL
    started_at: str = ""
    home: str = ""
    """The server's home folder, "" = not known: an earlier version wrote this."""


@dataclass(frozen=True)
class MachineIdentity:
    """A machine, and its current boot."""

    host: str
    boot_id: str


@dataclass(frozen=True)
class ServerLocation:
    """How to reach a server. token: "" = the one in the home folder."""

    home: Path
    url: str = ""
    """Its address, or those of all servers over a database, separated by commas; "" = find it by its home folder."""
    token: str = ""
    ca: str = ""
    """The certificate of the server's own authority (PEM); "" = a public one signs for it."""

    def trust(self, url: str) -> ssl.SSLContext | bool:
        """Returns what certificates of a server are compared with; True = the system's, False = it has no TLS."""
        if not url.startswith("https:"):
            return False  # httpx would read all certificates for nothing, which takes longer than a request.
        file = os.environ.get("SSL_CERT_FILE")  # httpx ignores it on loopback, where proxies mustn't be used.
        if not (self.ca or file):
            return True
        import ssl  # Takes 10 ms, which commands by the socket in the home don't spend.

        try:
            return ssl.create_default_context(cadata=self.ca) if self.ca else ssl.create_default_context(cafile=file)
        except OSError as error:
            raise RefusedError(f"SSL_CERT_FILE can't be used: {error}", where=str(file)) from None

    @property
    def urls(self) -> tuple[str, ...]:
        """The addresses one by one."""
        return tuple(one for each in self.url.split(",") if (one := each.strip().rstrip("/")))

    @property
    def has_standby(self) -> bool:
        """Whether another server may take over from the one that is called."""
        return len(self.urls) > 1

    def secret(self) -> str:
        """The token. Raises UnauthorizedError when there is none."""
        if self.token:
            return self.token
        try:
            return (self.home / "token").read_text().strip()
        except OSError as error:
            reason = error.strerror or type(error).__name__
            fix = "Set DRUMBEAT_TOKEN to the token of that server, or DRUMBEAT_HOME to its home folder."
            what = f"there is no token for the server: {reason}"
            raise UnauthorizedError(what, where=str(self.home / "token"), fix=fix) from None

    def refusal(self, error: UnauthorizedError) -> UnauthorizedError:
        """Returns a server's refusal of the token, in terms of what the caller has set."""
        if self.token:
            return UnauthorizedError(
                error.what,
                where=self.url or str(self.home),
                fix=f"Sign in again: drumbeat login {self.url or 'URL'}, or set DRUMBEAT_TOKEN to {YOURS}",
            )
        if self.url:
            sent = self.home / "token"
            what = f"DRUMBEAT_TOKEN isn't set, and the server refuses the token of {sent}, which was sent instead"
            return UnauthorizedError(what, where=self.url, fix=f"Set it to {YOURS}")
        return error


def locate(home: str | Path | None, url: str | None, token: str | None, environ: Mapping[str, str]) -> ServerLocation:
    """Returns the given server, else that of the environment, else the one signed in to, else this user's own."""
    asked = (url or environ.get("DRUMBEAT_SERVER", "")).rstrip("/")
    login = None
    if asked or not (home or environ.get("DRUMBEAT_HOME")):
        logins = read_logins(environ)
        login = logins.of(asked.partition(",")[0]) if asked else logins.current
    return ServerLocation(
        Path(home).absolute() if home else default_home(environ),
        asked or (login.url if login else ""),
        token or environ.get("DRUMBEAT_TOKEN", "") or (login.token if login else ""),
        login.ca if login else "",
    )


def default_home(environ: Mapping[str, str]) -> Path:
    """`$DRUMBEAT_HOME`, else a folder for state under the user's home, as the XDG directories say."""
    if home := environ.get("DRUMBEAT_HOME"):
        return Path(home).expanduser().absolute()
    state = environ.get("XDG_STATE_HOME") or Path("~/.local/state").expanduser()
    return Path(state) / "drumbeat"


def here() -> MachineIdentity:
    """Returns this machine."""
    boot_id = ""
    with suppress(OSError):
        boot_id = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return MachineIdentity(socket.gethostname(), boot_id)


def find(home: Path) -> ServerAddress | None:
    """Returns the server of a home, if it may be alive: its process exists in this boot of this machine."""
    try:
        address = wire.loads(ServerAddress, (home / "server.json").read_bytes())
    except (OSError, ValueError):
        return None
    is_ours = MachineIdentity(address.host, address.boot_id) == here()
    return address if is_ours and is_alive(address.pid) and not _is_elsewhere(home, address.home) else None


def _is_elsewhere(home: Path, noted: str) -> bool:
    """Whether the file came with a copy of the home of that server."""
    try:
        return bool(noted) and not home.samefile(noted)
    except OSError:
        return False  # It was renamed while its server runs.


def is_alive(pid: int) -> bool:
    """Whether there is a process of that number."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return pid > 0


def check_protocol(protocol: object, version: object) -> None:
    """Raises VersionError when the server speaks another protocol than we do."""
    if protocol == PROTOCOL:
        return
    newer, older = ("server", "client") if isinstance(protocol, int) and protocol > PROTOCOL else ("client", "server")
    raise VersionError(
        f"the {newer} is newer than the {older}: the server ({version}) speaks protocol {protocol}, "
        f"this client speaks {PROTOCOL}",
        fix=f"Update the {older}; a running server is replaced after `drumbeat server stop`.",
    )

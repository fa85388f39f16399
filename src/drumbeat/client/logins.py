"""The servers to which this user has signed in by `drumbeat login`: address, token, authority. One is current."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from drumbeat.model.errors import StorageError

NAME = "logins.json"


@dataclass(frozen=True)
class ServerLogin:
    """A server that the user has signed in to. ca: its own authority's certificate (PEM), "" = a public one."""

    url: str
    token: str
    ca: str = ""
    is_by_provider: bool = False
    """Whether the token is one by the server's identity provider."""


@dataclass(frozen=True)
class Logins:
    """All of them; the last one is the current one."""

    every: tuple[ServerLogin, ...] = ()
    is_current: bool = True
    """Whether commands use the last one when nothing else names a server."""

    @property
    def current(self) -> ServerLogin | None:
        """The server that commands use when nothing else names one."""
        return self.every[-1] if self.every and self.is_current else None

    def of(self, url: str) -> ServerLogin | None:
        """Returns the login of a server."""
        return next((one for one in self.every if one.url == url.rstrip("/")), None)

    def added(self, login: ServerLogin) -> Logins:
        """Returns them with this login as the current one."""
        return Logins((*self.without(login.url).every, login))

    def without(self, url: str) -> Logins:
        """Returns them without a server's; none is current if that was it."""
        was = self.current is not None and self.current.url == url.rstrip("/")
        others = tuple(one for one in self.every if one.url != url.rstrip("/"))
        return replace(self, every=others, is_current=self.is_current and not was)


def logins_file(environ: Mapping[str, str]) -> Path:
    """Returns the file with the logins: in `$XDG_CONFIG_HOME/drumbeat`, else `~/.config/drumbeat`."""
    folder = environ.get("XDG_CONFIG_HOME") or Path("~/.config").expanduser()
    return Path(folder) / "drumbeat" / NAME


def read_logins(environ: Mapping[str, str]) -> Logins:
    """Returns the logins; none where the file is missing or damaged."""
    with suppress(OSError, ValueError, TypeError, KeyError, RuntimeError):
        kept = json.loads(logins_file(environ).read_text())
        return Logins(tuple(ServerLogin(**one) for one in kept["servers"]), bool(kept["is_current"]))
    return Logins()


def write_logins(logins: Logins, environ: Mapping[str, str]) -> Path:
    """Writes the file, whose mode is 0600, as a whole. Returns its path. Raises StorageError."""
    path = logins_file(environ)
    fresh = path.with_name(f".{NAME}.{secrets.token_hex(4)}")
    servers = [{key: value for key, value in asdict(one).items() if value is not False} for one in logins.every]
    text = json.dumps({"servers": servers, "is_current": logins.is_current}, indent=1)
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(text + "\n")
        fresh.replace(path)
    except OSError as error:
        raise StorageError(f"the login can't be kept: {error.strerror}", where=str(path)) from None
    return path

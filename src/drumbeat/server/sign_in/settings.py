"""The settings of the OpenID Connect provider, read from a TOML file at the start of the server."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast
from urllib.parse import urlsplit

from drumbeat.jobfile.reading.error_messages import nearest
from drumbeat.model.errors import SpecError
from drumbeat.model.principal import Role

LOOPBACK = ("127.0.0.1", "localhost", "::1")
EVERYONE = "*"
"""The group in `[roles]` that every user of the provider is in."""
RESERVED = frozenset({"state", "nonce", "redirect_uri", "client_id", "response_type", "code_challenge", "scope"})
"""Parameters of the authorization request that the server sets itself."""
AUTH_METHODS = ("client_secret_basic", "client_secret_post")
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_DURATION = re.compile(r"(\d{1,7})([smhd])", re.ASCII)


@dataclass(frozen=True)
class ProviderClient:
    """What the server is to the provider."""

    id: str
    secret: str = field(default="", repr=False)
    """"" = a public client, which proves itself by PKCE only."""


@dataclass(frozen=True)
class ProviderSettings:
    """The provider, and whom of its users the server admits, in which role."""

    issuer: str
    client: ProviderClient
    roles: Mapping[str, Role]
    """The role of each group; the group `*` has every user."""
    name: str = ""
    """What the button of the page calls the provider."""
    scopes: str = "openid profile email"
    name_claim: str = "preferred_username"
    """The claim with the user's name on this server."""
    groups_claim: str = "groups"
    """The claim with the user's groups; dots lead into objects."""
    allowed_domains: tuple[str, ...] = ()
    """The domains of mail addresses that are admitted; () = all."""
    url: str = ""
    """The server's own address in browsers; "" = that of each request."""
    ask: str = "an owner of the server"
    """Whom a user asks who is refused."""
    life: timedelta = timedelta(days=7)
    """How long a sign-in lasts that is checked at the provider meanwhile."""
    unchecked_life: timedelta = timedelta(hours=12)
    """How long a sign-in lasts for which the provider gave no refresh token."""
    check_every: timedelta = timedelta(minutes=5)
    """How often the provider is asked whether a session goes on, and in which groups its user is."""
    clock_skew: timedelta = timedelta(minutes=1)
    """How far the clocks of provider and server may differ."""
    authorize_parameters: Mapping[str, str] = field(default_factory=dict[str, str])
    """Further parameters of the authorization request."""
    token_auth: str = AUTH_METHODS[0]
    """How the client proves itself at the provider's token endpoint."""
    ca_file: str = ""
    """The certificates (PEM) that sign for the provider; "" = the system's."""
    device_client: ProviderClient | None = None
    """The client for `drumbeat login`, where the provider wants another one (Google); None = the same."""

    @property
    def title(self) -> str:
        """What people call the provider."""
        return self.name or urlsplit(self.issuer).hostname or self.issuer


def read_settings(path: Path) -> ProviderSettings:
    """Reads the file. Raises SpecError, which names the key."""
    try:
        given = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SpecError(f"the file can't be read: {error.strerror}", where=str(path)) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SpecError(f"the file isn't TOML: {error}", where=str(path)) from None
    return _Reader(path, given).settings()


_KEYS = (
    "issuer", "client_id", "client_secret_file", "roles", "name", "scopes", "name_claim", "groups_claim",
    "allowed_domains", "url", "ask", "life", "unchecked_life", "check_every", "clock_skew", "authorize_parameters",
    "token_auth", "ca_file", "device_client_id", "device_client_secret_file",
)  # fmt: skip
_TEXTS = ("name", "scopes", "name_claim", "groups_claim", "ask")
_DURATIONS = ("life", "unchecked_life", "check_every", "clock_skew")


class _Reader:
    def __init__(self, path: Path, given: Mapping[str, Any]) -> None:
        self._path, self._given = path, given

    def settings(self) -> ProviderSettings:
        for key in self._given:
            if key not in _KEYS:
                fix = nearest(key, list(_KEYS)) or f"The keys are: {', '.join(_KEYS)}."
                raise self._error(key, "there is no such key", fix)
        texts = {key: self._text(key) for key in _TEXTS if key in self._given}
        durations = {key: self._duration(key) for key in _DURATIONS if key in self._given}
        made = ProviderSettings(
            issuer=self._url("issuer"),
            client=self._client("client_id", "client_secret_file"),
            roles=self._roles(),
            allowed_domains=self._domains(),
            url=self._url("url") if "url" in self._given else "",
            authorize_parameters=self._parameters(),
            token_auth=self._token_auth(),
            ca_file=self._ca_file(),
            device_client=self._device_client(),
            **cast("dict[str, Any]", texts),
            **cast("dict[str, Any]", durations),
        )
        if "openid" not in made.scopes.split():
            raise self._error("scopes", "the scope openid is missing", 'Write scopes = "openid profile email".')
        return made

    def _error(self, key: str, what: str, fix: str = "") -> SpecError:
        return SpecError(what, where=f"{self._path}: {key}", fix=fix)

    def _text(self, key: str) -> str:
        value = self._given.get(key)
        if not isinstance(value, str) or not value.strip() or len(value) > 2000 or not value.isprintable():
            raise self._error(key, "it is missing" if value is None else "it must be a text")
        return value.strip()

    def _url(self, key: str) -> str:
        text = self._text(key)
        try:
            parts = urlsplit(text)
            is_url = bool(parts.hostname) and parts.scheme in ("http", "https") and not parts.query + parts.fragment
        except ValueError:
            raise self._error(key, f"{text!r} isn't an address") from None
        if not is_url or parts.username is not None:
            raise self._error(key, f"{text!r} isn't an address", "Write it as https://NAME/PATH.")
        if parts.scheme == "http" and parts.hostname not in LOOPBACK:
            raise self._error(key, "without TLS, what passes could be read and changed on the way", "Use https://.")
        if "{tenantid}" in text or parts.path.rstrip("/") in ("/common/v2.0", "/organizations/v2.0"):
            what = "anyone with an account at the provider could sign in"
            raise self._error(key, what, "Name the tenant: https://login.microsoftonline.com/TENANT-ID/v2.0")
        return text.rstrip("/") if key == "url" else text

    def _client(self, id_key: str, secret_key: str) -> ProviderClient:
        return ProviderClient(self._text(id_key), self._secret(secret_key) if secret_key in self._given else "")

    def _device_client(self) -> ProviderClient | None:
        keys = "device_client_id", "device_client_secret_file"
        return self._client(*keys) if keys[0] in self._given else None

    def _file(self, key: str) -> Path:
        return self._path.parent / Path(self._text(key)).expanduser()

    def _secret(self, key: str) -> str:
        file = self._file(key)
        try:
            mode, text = file.stat().st_mode, file.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise self._error(key, f"{file} can't be read: {getattr(error, 'strerror', error)}") from None
        if mode & 0o007:
            raise self._error(key, f"every user of this machine can read {file}", f"chmod 600 {file}")
        if not text:
            raise self._error(key, f"{file} is empty")
        return text

    def _ca_file(self) -> str:
        if "ca_file" not in self._given:
            return ""
        file = self._file("ca_file")
        if not file.is_file():
            raise self._error("ca_file", f"{file} is missing")
        return str(file)

    def _roles(self) -> Mapping[str, Role]:
        given = self._given.get("roles")
        fix = 'Write a table, such as [roles] with the lines owner = ["admins"] and contributor = ["ml"].'
        if not isinstance(given, dict) or not given:
            raise self._error("roles", "it says which groups may use the server, and is missing", fix)
        roles: dict[str, Role] = {}
        for role, groups in cast("dict[str, Any]", given).items():
            if role not in list(Role):
                raise self._error(f"roles.{role}", "there is no such role", f"The roles are: {', '.join(Role)}.")
            for group in self._texts(f"roles.{role}", groups):
                roles[group] = min(Role(role), roles.get(group, Role(role)), key=list(Role).index)
        return MappingProxyType(roles)

    def _texts(self, key: str, given: Any) -> list[str]:
        if not isinstance(given, list) or not all(
            isinstance(one, str) and one.strip() for one in cast("list[Any]", given)
        ):
            raise self._error(key, "it must be a list of texts")
        return cast("list[str]", given)

    def _domains(self) -> tuple[str, ...]:
        return tuple(
            one.lower().removeprefix("@")
            for one in self._texts("allowed_domains", self._given.get("allowed_domains", []))
        )

    def _parameters(self) -> Mapping[str, str]:
        given = self._given.get("authorize_parameters", {})
        if not isinstance(given, dict) or not all(
            isinstance(one, str) for one in cast("dict[str, Any]", given).values()
        ):
            raise self._error("authorize_parameters", "it must be a table of texts")
        parameters = cast("dict[str, str]", given)
        for key in parameters:
            if key in RESERVED or key.startswith("code_challenge"):
                raise self._error(f"authorize_parameters.{key}", "the server sets this one itself")
        return MappingProxyType(dict(parameters))

    def _token_auth(self) -> str:
        text = self._text("token_auth") if "token_auth" in self._given else AUTH_METHODS[0]
        if text not in AUTH_METHODS:
            raise self._error("token_auth", f"{text!r} isn't supported", f"Use {' or '.join(AUTH_METHODS)}.")
        return text

    def _duration(self, key: str) -> timedelta:
        text = self._text(key)
        match = _DURATION.fullmatch(text)
        span = timedelta(seconds=int(match[1]) * _UNITS[match[2]]) if match else timedelta(0)
        most = timedelta(minutes=10) if key == "clock_skew" else timedelta(days=365)
        if not timedelta(seconds=1) <= span <= most:
            limit = "10m" if key == "clock_skew" else "365d"
            raise self._error(
                key, f"can't read {text!r} as a duration", f"Write it as 30s, 5m, 12h or 7d, at most {limit}."
            )
        return span

"""What the provider answers: users, device flows and logouts, and its refusals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from drumbeat.model.errors import UnauthorizedError


class SessionEndedError(UnauthorizedError):
    """The provider refuses the refresh token of a session: it has ended there."""


class SignInPendingError(UnauthorizedError):
    """The user hasn't finished signing in at the provider yet. slow_down: ask less often."""

    def __init__(self, what: str, *, slow_down: bool = False) -> None:
        super().__init__(what)
        self.slow_down = slow_down


@dataclass(frozen=True)
class ProviderAnswer:
    """What the provider says of a user who has signed in."""

    claims: Mapping[str, Any]
    """Those of the ID token, and those that only the userinfo endpoint has."""
    refresh_token: str = ""
    """"" = none."""

    @property
    def subject(self) -> str:
        """The user's id at the provider, which never changes."""
        return str(self.claims["sub"])

    @property
    def sid(self) -> str:
        """The session's id at the provider; "" = it has none."""
        sid = self.claims.get("sid")
        return sid if isinstance(sid, str) else ""


@dataclass(frozen=True)
class DeviceStart:
    """The beginning of a sign-in by the device flow (RFC 8628)."""

    device_code: str
    user_code: str
    url: str
    """Where the user types the code."""
    url_with_code: str
    """"" = there is none."""
    expires_s: float
    interval_s: float


@dataclass(frozen=True)
class LogoutToken:
    """What a back-channel logout ends: a session, or all of a user; "" = it doesn't say."""

    subject: str
    sid: str


def claim_value(claims: Mapping[str, Any], path: str) -> Any:
    """Returns the value of a claim; None = there is none. path: its name, or the way into objects with dots."""
    if path in claims:
        return claims[path]
    value: Any = claims
    for part in path.split("."):
        if not isinstance(value, Mapping):
            return None
        value = cast("Mapping[str, Any]", value).get(part)
    return value


def printable(text: str) -> str:
    """Returns foreign text in one short line."""
    return "".join(one if one.isprintable() else " " for one in text)[:300]

"""What the server keeps of the provider's users, and of their sessions there."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime


@dataclass(frozen=True)
class ProviderUser:
    """A user of the provider, who keeps the name of the first sign-in here."""

    issuer: str
    subject: str
    """The provider's id of the user, which never changes and is never given to another one."""
    name: str
    """The user's name on this server."""
    role: str
    """The role of the last sign-in or check; "" = it was refused."""


@dataclass(frozen=True)
class ProviderSession:
    """A sign-in, to which tokens belong."""

    session: str
    """The name of it in the tokens' rows."""
    issuer: str
    subject: str
    sid: str
    """The provider's name of it; "" = none."""
    sealed: bytes = field(repr=False)
    """The refresh token, encrypted; b"" = none."""
    by_device: bool
    """Whether it was made by the client of the device flow."""
    checked_at: datetime
    """When the provider was last asked."""

"""What a client gets to call a server by Azure's API."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime


@dataclass(frozen=True)
class AzureSession:
    """The address for Azure's clients, and a token for it."""

    url: str
    """Such as `https://127.0.0.1:7443`."""
    ca: str
    """The certificate (PEM) of the authority that has signed the server's."""
    token: str = field(repr=False)
    """The token, which expires."""
    expires_at: datetime
    """When it expires."""
    person: str
    """Whose it is."""

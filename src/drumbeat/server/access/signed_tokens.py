"""Tokens and signatures that expire, for clients that aren't drumbeat's own and can't keep a user's token.

Nothing is stored: a token carries its end and the digest of the user's token, signed with the token of the server's
home. It ends when the user's token is removed, and a new token of the home ends all.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import time
from collections.abc import Callable
from dataclasses import dataclass

PREFIX = "azure"
_FIELDS = 4


@dataclass(frozen=True)
class ExpiringToken:
    """A token and its end, in seconds since the epoch."""

    text: str
    ends: int


class SignedTokens:
    """Signs and verifies, for one server. Thread-safe. token: of the server's home."""

    def __init__(self, token: str, clock: Callable[[], float] = time.time) -> None:
        self._key, self.now = token.encode(), clock

    def new_token(self, digest: str, life_s: float) -> ExpiringToken:
        """Returns a token for the user whose token has this digest, "" = the home's."""
        ends = int(self.now() + life_s)
        return ExpiringToken(f"{PREFIX}.{ends}.{digest}.{self.sign('token', str(ends), digest)}", ends)

    def read(self, token: str) -> tuple[str, int] | None:
        """Returns the digest in a valid token, and its end; None = it isn't one, or has expired."""
        parts = token.split(".")
        if len(parts) != _FIELDS or parts[0] != PREFIX or not self.is_current(parts[1]):
            return None
        _, ends, digest, signature = parts
        return (digest, int(ends)) if self.is_signed(signature, "token", ends, digest) else None

    def is_current(self, ends: str) -> bool:
        """Whether a time in seconds since the epoch, as text, is to come."""
        return ends.isascii() and ends.isdigit() and len(ends) < 16 and self.now() < int(ends)

    def sign(self, purpose: str, *fields: str) -> str:
        """Returns the signature of texts for one purpose."""
        text = json.dumps(["drumbeat", purpose, *fields])
        return hmac.new(self._key, text.encode(), hashlib.sha256).hexdigest()

    def is_signed(self, signature: str, purpose: str, *fields: str) -> bool:
        """Whether a signature belongs to these texts."""
        return hmac.compare_digest(signature.encode(errors="replace"), self.sign(purpose, *fields).encode())

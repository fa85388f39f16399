"""Sessions of the web page: a one-time link becomes a cookie, and actions carry a second secret beside it."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import threading
import time
from collections.abc import Callable

LINK_LIFETIME_S = 600.0
INVITATION_S = 86_400.0
"""How long a link works that an owner sends to the user of a new token."""
SESSION_LIFETIME_S = 7 * 86_400
MAX_LINKS = 100
"""Maximum number of unused links; the oldest are dropped first."""
SIGNED_FIELDS = 3
"""Of the session of a user with a token of their own: its end, a random part, the token's digest."""


class PageSessions:
    """Links and sessions of one server. Thread-safe.

    A session is not stored: its cookie carries its expiry time, signed with the server's token. It outlives a restart
    of the server, and a new token ends all sessions.
    """

    def __init__(self, token: str, clock: Callable[[], float] = time.time) -> None:
        self._key, self._clock = token.encode(), clock
        self._links: dict[str, tuple[float, str]] = {}
        self._lock = threading.Lock()
        self.cookie = f"drumbeat-{self._sign('cookie name')[:8]}"
        """The cookie's name. Browsers share cookies between ports, so each server of a machine has its own name."""

    def new_link(self, digest: str = "", life_s: float = LINK_LIFETIME_S) -> str:
        """Returns the code of a link, which opens the page once, within its life.

        digest: of the token whose user the page is for; "" = the home's.
        """
        code = secrets.token_urlsafe(24)
        with self._lock:
            self._links[code] = self._clock() + life_s, digest
            for oldest in list(self._links)[:-MAX_LINKS]:
                del self._links[oldest]
        return code

    def open(self, code: str) -> str | None:
        """Returns the cookie's value for a link's code; None if the link was used or has expired."""
        with self._lock:
            ends, digest = self._links.pop(code, (0.0, ""))
        return self._new_session(digest) if self._clock() < ends else None

    def sign_in(self, digest: str) -> str:
        """Returns the cookie's value for the user of the token with this digest."""
        return self._new_session(digest)

    def is_valid(self, session: str) -> bool:
        """Whether a cookie's value is a session of this server that has not expired."""
        body, _, signature = session.rpartition(".")
        ends = body.partition(".")[0]
        is_signed = hmac.compare_digest(signature.encode(), self._sign(f"session {body}").encode())
        return is_signed and ends.isascii() and ends.isdigit() and self._clock() < int(ends)

    def token_digest(self, session: str) -> str:
        """Returns the digest of the token that a valid session belongs to; "" = the home's."""
        return session.split(".")[2] if session.count(".") == SIGNED_FIELDS else ""

    def action_token(self, session: str) -> str:
        """Returns what a session sends with each action; only the page itself can read it."""
        return self._sign(f"action {session}")

    def may_act(self, session: str, action_token: str) -> bool:
        """Whether this action token belongs to the session."""
        return hmac.compare_digest(action_token.encode(), self.action_token(session).encode())

    def _new_session(self, digest: str) -> str:
        body = f"{int(self._clock()) + SESSION_LIFETIME_S}.{secrets.token_urlsafe(16)}"
        body = f"{body}.{digest}" if digest else body
        return f"{body}.{self._sign(f'session {body}')}"

    def _sign(self, text: str) -> str:
        return hmac.new(self._key, f"drumbeat page: {text}".encode(), hashlib.sha256).hexdigest()

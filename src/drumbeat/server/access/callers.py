"""The callers of a server: which principal a token or a session of the web page belongs to.

The tokens of users are made, found and removed in `server/users/tokens.py`.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable
from secrets import compare_digest

from anyio import to_thread

from drumbeat.model.principal import Principal, Role

KEPT_S = 2.0
"""How long the answer of the store about a token is used. On other servers, a removed token works for so long."""
MAX_KEPT = 1000

Find = Callable[[str], Principal | None]
"""Returns the principal whose token has a digest; may block."""


class Callers:
    """Knows the token of the server's home, whose principal is an owner, and asks the store for all others."""

    def __init__(self, token: str, user: str, find: Find, clock: Callable[[], float] = time.monotonic) -> None:
        self._token, self._find, self._clock = token.encode(), find, clock
        self.owner = Principal(user, Role.OWNER)
        """The principal of the home's token."""
        self._kept: dict[str, tuple[Principal, float]] = {}
        self._lock = threading.Lock()

    def token_digest(self, token: str) -> str:
        """Returns the digest of a token; "" for the home's."""
        is_own = compare_digest(token.encode(), self._token)
        return "" if is_own else hashlib.sha256(token.encode()).hexdigest()

    async def for_token(self, token: str) -> Principal | None:
        """Returns the principal of a token; None = no user has it."""
        return await self.for_digest(self.token_digest(token))

    async def for_digest(self, digest: str) -> Principal | None:
        """Returns the principal of the token with this digest, "" = the home's; None = no user has it any more."""
        if not digest:
            return self.owner
        principal, until = self._kept.get(digest, (None, 0.0))
        if principal is not None and self._clock() < until:
            return principal
        principal = await to_thread.run_sync(self._find, digest, abandon_on_cancel=True)
        self._keep(digest, principal)
        return principal

    def forget(self) -> None:
        """Drops all cached answers, because a token was removed."""
        with self._lock:
            self._kept.clear()

    def _keep(self, digest: str, principal: Principal | None) -> None:
        with self._lock:
            self._kept.pop(digest, None)
            if principal is not None:
                self._kept[digest] = principal, self._clock() + KEPT_S
            for oldest in list(self._kept)[:-MAX_KEPT]:
                del self._kept[oldest]

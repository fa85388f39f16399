"""Addresses of the web page, to which a browser comes back once it has a session."""

from __future__ import annotations

from urllib.parse import urlsplit

from drumbeat.server.access.request_guard import PAGE

MAX_RETURN = 2000


def safe_return(to: str) -> str:
    """Returns an address of the page to go back to; the page's first one for anything that isn't one."""
    is_short = len(to) <= MAX_RETURN and to.isascii() and to.isprintable()
    if not is_short or "\\" in to or not (to == PAGE or to.startswith((f"{PAGE}/", f"{PAGE}?"))):
        return f"{PAGE}/"
    parts = urlsplit(to)
    is_own = not parts.scheme and not parts.netloc and ".." not in parts.path and not parts.path.startswith("//")
    return to if is_own and "/sign-in" not in parts.path else f"{PAGE}/"

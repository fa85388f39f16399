"""Filters the headers between a browser and a service. Pure.

A service is under the control of its job's author. It gets none of drumbeat's cookies and tokens, and can neither set
these nor change the browser's state for the server's other ports, which share the cookies of the host.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

Header = tuple[bytes, bytes]
OWN_COOKIES = b"drumbeat-"
"""The prefix of the names of drumbeat's cookies."""
LOCAL = b"localhost"
"""The `Host` for services, some of which refuse other names."""
_HOP_BY_HOP = {
    b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-authorization", b"proxy-connection", b"te", b"trailer",
    b"upgrade",
}  # fmt: skip
"""Hop-by-hop headers (RFC 9110, 7.6.1). h11 handles the framing of bodies."""
_OF_HOST = {b"clear-site-data", b"strict-transport-security", b"public-key-pins", b"alt-svc"}
"""Response headers that affect the whole host."""


def values(headers: Iterable[Header], name: bytes) -> list[bytes]:
    """Returns all values of a header. name: in lower case."""
    return [value for key, value in headers if key.lower() == name]


def is_upgrade(headers: Sequence[Header]) -> bool:
    """Whether a request asks for an upgrade, such as to WebSocket."""
    words = b",".join(values(headers, b"connection")).lower().split(b",")
    return b"upgrade" in (word.strip() for word in words) and bool(values(headers, b"upgrade"))


def to_service(headers: Sequence[Header], origin: bytes, *, has_own_token: bool, token: str = "") -> list[Header]:
    """Returns the headers of a request for the service.

    origin: of the service's port; has_own_token: the `Authorization` header is drumbeat's. token: JupyterLab's.
    """
    kept: list[Header] = [(b"Host", LOCAL)]
    upgrade = _upgrade(headers)
    for name, value in headers:
        key = name.lower()
        if key in _HOP_BY_HOP or key in (b"host", b"sec-fetch-site") or (key == b"authorization" and has_own_token):
            continue
        if key == b"cookie":
            value = without_own_cookies(value)  # noqa: PLW2901 (what goes on of it)
        elif key in (b"origin", b"referer"):
            value = _at_local(value, origin)  # noqa: PLW2901
        if value:
            kept.append((name, value))
    if token and not any(name.lower() == b"authorization" for name, _ in kept):
        kept.append((b"Authorization", f"token {token}".encode()))
    return [*kept, *upgrade]


def to_browser(headers: Sequence[Header]) -> list[Header]:
    """Returns the headers of a response for the browser."""
    kept: list[Header] = []
    for name, value in headers:
        key = name.lower()
        if key in _HOP_BY_HOP or key in _OF_HOST:
            continue
        if key == b"set-cookie":
            value = _cookie_of_port(value)  # noqa: PLW2901 (what goes on of it)
        elif key == b"location":
            value = _relative(value)  # noqa: PLW2901
        if value:
            kept.append((name, value))
    return [*kept, *_upgrade(headers), (b"Referrer-Policy", b"same-origin")]


def without_own_cookies(value: bytes) -> bytes:
    """Returns the `Cookie` header without drumbeat's cookies."""
    pairs = [pair.strip() for pair in value.split(b";")]
    return b"; ".join(pair for pair in pairs if pair and not pair.lower().startswith(OWN_COOKIES))


def _cookie_of_port(value: bytes) -> bytes:
    """Restricts a service's cookie to its host; returns b"" for a name with drumbeat's prefix."""
    parts = [part.strip() for part in value.split(b";")]
    name, is_named, _ = parts[0].partition(b"=")
    if not name.strip() or not is_named or name.lower().startswith(OWN_COOKIES):  # A nameless one can look like it.
        return b""
    return b"; ".join(part for part in parts if not part.lower().startswith(b"domain"))


def _upgrade(headers: Sequence[Header]) -> list[Header]:
    if not is_upgrade(headers):
        return []
    return [(b"Connection", b"Upgrade"), (b"Upgrade", values(headers, b"upgrade")[0])]


def _at_local(value: bytes, origin: bytes) -> bytes:
    """Translates a URL at the port to one at the service; drops other URLs."""
    if value != origin and not value.startswith(origin + b"/"):
        return b""
    return b"http://" + LOCAL + value[len(origin) :]


def _relative(value: bytes) -> bytes:
    """Translates the target of a redirect to the service's own name into a path."""
    prefix = b"http://" + LOCAL
    return value[len(prefix) :] or b"/" if value == prefix or value.startswith(prefix + b"/") else value

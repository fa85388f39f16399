"""Signs in to a server by its identity provider: by a code that the user types, or by a browser of this machine."""

from __future__ import annotations

import http.server
import platform
import secrets
import ssl
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self, cast
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx

from drumbeat.model.errors import DrumbeatError, RefusedError, UnauthorizedError, UnreachableError, from_dict
from drumbeat.model.sign_in_codes import challenge_of, check_code

TIMEOUT_S = 45.0
"""Longer than the server waits for the provider."""
BROWSER_TIMEOUT_S = 600.0
PATH = "/ui/sign-in"
MAX_INTERVAL_S = 60.0
SLOWER_S = 5.0
"""RFC 8628, section 3.5."""
_DONE = b"<!doctype html><title>drumbeat</title><p>You are signed in. Close this tab, and go on in the terminal.</p>"


@dataclass(frozen=True)
class ServerProvider:
    """The identity provider of a server. name: "" = it has none."""

    name: str
    has_device_flow: bool = False


@dataclass(frozen=True)
class ProviderToken:
    """A token by signing in. expires_at: ISO 8601, "" = never."""

    token: str
    person: str
    role: str
    expires_at: str


@dataclass(frozen=True)
class SignInPrompt:
    """What the user does to sign in. code: what the browser shows or asks for."""

    url: str
    code: str
    is_typed: bool
    """Whether the user types the code there; otherwise the browser shows it, for comparison."""


class ProviderLogin:
    """A sign-in to one server. ca: its own authority's certificate (PEM), "" = a public one."""

    def __init__(
        self, url: str, ca: str = "", *, sleep: Callable[[float], None] = time.sleep, label: str | None = None
    ) -> None:
        self._url, self._sleep = url, sleep
        self._label = platform.node() if label is None else label
        self._verify: ssl.SSLContext | bool = ssl.create_default_context(cadata=ca) if ca else True

    def provider(self) -> ServerProvider:
        """Returns the server's provider, "" = it has none. Raises UnreachableError, if it isn't known."""
        given = self._json("GET", "/provider?device=1", accepts=(200, 404))
        return ServerProvider(str(given.get("name") or ""), given.get("device") is True)

    def by_device(self, show: Callable[[SignInPrompt], None]) -> ProviderToken:
        """Has the user type a code in any browser. Raises UnauthorizedError, ForbiddenError, UnreachableError."""
        start = self._json("POST", "/device")
        url = str(start["url_with_code"] or start["url"])
        show(SignInPrompt(url, str(start["user_code"]), is_typed=True))
        interval_s, ends = float(start["interval_s"]), time.monotonic() + float(start["expires_s"])
        while time.monotonic() < ends:
            self._sleep(interval_s)
            try:
                given = self._json("POST", "/token", {"handle": start["handle"], "label": self._label}, (200, 202))
            except UnreachableError:
                interval_s = min(interval_s * 2, MAX_INTERVAL_S)
                continue
            if "token" in given:
                return _token(given)
            if given.get("slow_down"):
                interval_s += SLOWER_S
        raise UnauthorizedError("the code expired before it was used", fix="Run `drumbeat login` again.")

    def by_browser(self, show: Callable[[SignInPrompt], None], timeout_s: float = BROWSER_TIMEOUT_S) -> ProviderToken:
        """Has a browser of this machine sign in, which hands a code over on loopback (RFC 8252).

        Raises UnauthorizedError, ForbiddenError, UnreachableError.
        """
        verifier = secrets.token_urlsafe(48)
        challenge = challenge_of(verifier)
        with _CodeListener() as listener:
            url = f"{self._url}{PATH}?{urlencode({'port': listener.port, 'challenge': challenge})}"
            show(SignInPrompt(url, check_code(challenge), is_typed=False))
            code = listener.wait(timeout_s)
        if not code:
            raise UnauthorizedError("no browser signed in in time", fix="Run `drumbeat login` again.")
        return _token(self._json("POST", "/token", {"code": code, "verifier": verifier, "label": self._label}))

    def _json(self, method: str, path: str, body: Any = None, accepts: tuple[int, ...] = (200,)) -> dict[str, Any]:
        try:
            with httpx.Client(timeout=TIMEOUT_S, verify=self._verify) as http:
                answer = http.request(method, f"{self._url}{PATH}{path}", json=body)
        except httpx.TransportError as error:
            raise UnreachableError(f"no server answers: {error}", where=self._url) from None
        try:
            content = answer.json()
        except ValueError:
            content = None
        given = cast("dict[str, Any]", content) if isinstance(content, dict) else {}
        if answer.status_code not in accepts:
            raise _refusal(answer.status_code, given, self._url)
        return given


def _token(given: dict[str, Any]) -> ProviderToken:
    try:
        return ProviderToken(
            str(given["token"]), str(given["person"]), str(given["role"]), str(given.get("expires_at") or "")
        )
    except KeyError:
        raise RefusedError("the server sent no token") from None


def _refusal(status: int, given: dict[str, Any], url: str) -> DrumbeatError:
    if "code" in given and "what" in given:
        return from_dict(given)
    return UnreachableError(f"the server answered {status}", where=url)


class _CodeListener:
    """Listens on loopback for the code that the browser brings."""

    def __init__(self) -> None:
        self._code, self._arrived = "", threading.Event()
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            timeout = 10

            def do_GET(self) -> None:
                given = parse_qs(urlsplit(self.path).query).get("code", [""])[0]
                self.send_response(200 if given else 404)
                self.send_header("Content-Type", "text/html; charset=utf-8")
                self.send_header("Content-Length", str(len(_DONE) if given else 0))
                self.end_headers()
                if given:
                    self.wfile.write(_DONE)
                    outer.take(given)

            def log_message(self, format: str, *args: Any) -> None:
                """Says nothing: the terminal is the user's."""

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.1,), daemon=True)

    @property
    def port(self) -> int:
        """The port, which the kernel chose."""
        return self._server.server_address[1]

    def take(self, code: str) -> None:
        """Takes the first code."""
        if not self._arrived.is_set():
            self._code = code
            self._arrived.set()

    def wait(self, timeout_s: float) -> str:
        """Returns the code; "" = none came in time."""
        return self._code if self._arrived.wait(timeout_s) else ""

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._server.shutdown()
        self._server.server_close()

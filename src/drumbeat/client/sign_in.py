"""Signs in to a server: trusts its certificate, by a public authority or a fingerprint, and tries the token."""

from __future__ import annotations

import ssl
from urllib.parse import urlsplit

import httpx

from drumbeat.client.connection import LOOPBACK, Connection
from drumbeat.client.discovery import ServerLocation, default_home
from drumbeat.client.logins import ServerLogin
from drumbeat.model.certificates import fingerprint, is_same
from drumbeat.model.errors import RefusedError, UnreachableError

TIMEOUT_S = 20.0
CA_PATH = "/ui/ca.pem"


def plain_url(typed: str) -> str:
    """Returns the address of a server as it is kept. Raises RefusedError for one that isn't one, or has no TLS."""
    text = typed.strip().rstrip("/")
    url = urlsplit(text if "://" in text else f"https://{text}")
    if url.scheme not in ("http", "https") or not url.hostname or url.path or url.query:
        raise RefusedError(f"{typed!r} isn't a server's address", where="URL", fix="Type it as https://NAME:PORT.")
    if url.scheme == "http" and url.hostname not in LOOPBACK:
        what = "without TLS, the token could be read on the way"
        raise RefusedError(
            what, where=text, fix="Start the server with --tls own, or use ssh -L and its loopback address."
        )
    return f"{url.scheme}://{url.netloc}"


def trusted_authority(url: str, pin: str) -> str:
    """Returns the certificate (PEM) of the server's own authority, "" = a public one signs for the server.

    pin: the fingerprint that the user was given, "" = none. Raises RefusedError for another one, UnreachableError.
    """
    if not url.startswith("https:"):
        return ""
    try:
        if not pin:
            httpx.get(f"{url}/healthz", timeout=TIMEOUT_S)
            return ""
    except httpx.ConnectError as error:
        if not isinstance(_cause(error), ssl.SSLError):
            raise UnreachableError(f"no server answers: {error}", where=url) from None
    except httpx.TransportError as error:
        raise UnreachableError(f"no server answers: {error}", where=url) from None
    return _pinned(url, pin)


def _pinned(url: str, pin: str) -> str:
    try:
        # Nothing secret is sent; what comes back is compared with the fingerprint.
        answer = httpx.get(f"{url}{CA_PATH}", verify=False, timeout=TIMEOUT_S)  # noqa: S501 - see above
        shown = fingerprint(answer.text)
    except httpx.TransportError as error:
        raise UnreachableError(f"no server answers: {error}", where=url) from None
    except ValueError:
        what = "no authority that is known here signs the server's certificate, and the server has none of its own"
        raise RefusedError(what, where=url, fix="Set SSL_CERT_FILE to the file of the authority.") from None
    if not pin:
        what = f"no authority that is known here signs the server's certificate; its own has the fingerprint {shown}"
        fix = (
            f"If the server's owner says the same (drumbeat server status): drumbeat login {url} --fingerprint {shown}"
        )
        raise RefusedError(what, where=url, fix=fix)
    if not is_same(pin, answer.text):
        what = f"the server's authority has the fingerprint {shown}, and not {pin}"
        fix = "Ask the server's owner: it is another server, or someone stands between."
        raise RefusedError(what, where=url, fix=fix)
    return answer.text


def _cause(error: BaseException) -> BaseException | None:
    seen: BaseException | None = error
    while seen is not None and not isinstance(seen, ssl.SSLError):
        seen = seen.__cause__ or seen.__context__
    return seen


def try_login(login: ServerLogin) -> None:
    """Asks the server with the token. Raises UnauthorizedError, UnreachableError, VersionError."""
    _call(login, "GET", "/version")


def end_token(login: ServerLogin) -> None:
    """Ends the token at the server. Raises UnauthorizedError, UnreachableError, VersionError."""
    _call(login, "DELETE", "/token")


def _call(login: ServerLogin, method: str, path: str) -> None:
    connection = Connection(ServerLocation(default_home({}), login.url, login.token, login.ca), is_starting=False)
    try:
        connection.call(method, path)
    finally:
        connection.close()

"""Requests to the server: finds it, starts it if needed, checks its version, and finds it again when it has moved."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote, urlsplit

import httpx

from drumbeat.client import autostart, discovery
from drumbeat.client.discovery import MachineIdentity, ServerAddress, ServerLocation
from drumbeat.model import home_socket
from drumbeat.model.errors import (
    AwayError,
    DrumbeatError,
    NotFoundError,
    RefusedError,
    StandbyError,
    UnauthorizedError,
    UnreachableError,
    VersionError,
    from_dict,
)

SILENCE_S = 60.0
"""How long a call waits for a server that says nothing, repeated tries included."""
CONNECT_S = 5.0
TIMEOUT = httpx.Timeout(SILENCE_S, connect=CONNECT_S)
LISTING_TIMEOUT = httpx.Timeout(1800.0, connect=5.0)
"""For a call for which the server lists what a store holds: it answers when the store has told all, which may take
minutes where the files are very many.
"""
HELLO = httpx.Timeout(30.0, connect=5.0)
"""How long a server of this machine may take to identify itself, which needs no other process."""
TRIES = 5
"""How often an interrupted transfer is resumed."""
AWAY_S = 3.0
"""How long a call is sent again whose server has no database for now: PostgreSQL starts again in about that time."""
TAKEOVER_S = 30.0
"""How long a call is sent again where several servers are known: one that stands by takes over in about 10 s."""
TAKEOVER_HELLO = httpx.Timeout(5.0, connect=3.0)
TAKEOVER_TIMEOUT = httpx.Timeout(20.0, connect=3.0)
"""For calls where several servers are known: the active one may stand still, and another one take over."""
RECONNECT_TIMEOUT_S = 120.0
"""How long a follower looks for a lost server."""
MAX_PAUSE_S = 2.0
ENDING_S = 60.0
LOOPBACK = ("127.0.0.1", "localhost", "::1")


@dataclass
class OpenConnection:
    """An open connection, and the machine of its server."""

    http: httpx.Client
    url: str
    machine: MachineIdentity


class HomeSocketTransport(httpx.HTTPTransport):
    """HTTP over the Unix socket in a server's home folder.

    Raises UnreachableError, before anything is sent, unless the server's user listens there.
    """

    def __init__(self, home: Path) -> None:
        path = home / home_socket.NAME
        try:
            home_socket.connect(str(path), CONNECT_S).close()
            # Kept open: later connections go to the same folder, and its path may be too long for an address.
            self._folder = os.open(home, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            fix = "`drumbeat server status` tells whether it runs."
            raise UnreachableError(f"no server answers: {error.strerror or error}", where=str(path), fix=fix) from error
        self._server = self._identity()
        super().__init__(uds=home_socket.address(str(path), self._folder), verify=False)

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Raises httpx.ConnectError when another server listens there by now, which may have another URL."""
        if self._identity() != self._server:
            raise httpx.ConnectError("another server listens now", request=request)
        return super().handle_request(request)

    def _identity(self) -> tuple[int, int]:
        """Identifies the server's socket; each server makes one."""
        with suppress(OSError):
            status = os.stat(home_socket.NAME, dir_fd=self._folder)
            return status.st_ino, status.st_ctime_ns
        return 0, 0

    def close(self) -> None:
        """Closes the connections, and the folder."""
        super().close()
        if self._folder >= 0:
            os.close(self._folder)
        self._folder = -1


class Connection:
    """Calls of one thread.

    A call is sent again when its connection broke and a server is found again, and when the server's database cannot
    answer for a moment: all calls of the API are idempotent. A server that stays silent for `SILENCE_S` is not asked
    again.
    """

    def __init__(self, where: ServerLocation, *, is_starting: bool = True, idle_stop_s: float | None = None) -> None:
        self.where, self.is_starting, self.idle_stop_s = where, is_starting, idle_stop_s
        self._line: OpenConnection | None = None

    @property
    def line(self) -> OpenConnection:
        """The connection, opened on first use."""
        if self._line is None:
            self._line = self._opened(is_starting=self.is_starting)
        return self._line

    @property
    def is_here(self) -> bool:
        """Whether the server runs on this machine, so that it sees the same files."""
        return self.line.machine == discovery.here()

    def call(self, method: str, path: str, **options: Any) -> Any:
        """Returns the JSON of the answer; None for an empty body. Raises the server's error, or UnreachableError."""
        response = self.send(method, path, **options)
        return response.json() if response.content else None

    def send(self, method: str, path: str, **options: Any) -> httpx.Response:
        """Returns the complete response."""
        return self._sent(method, lambda http: checked(http.request(method, api(path), **options)))

    def upload(
        self, path: str, pieces: Callable[[], Iterable[bytes]], size: int, *, params: dict[str, str] | None = None
    ) -> httpx.Response:
        """Sends a body of `size` bytes; `pieces` gives it from its beginning each time."""
        headers = {"Content-Length": str(size), "Content-Type": "application/octet-stream"}
        options: dict[str, Any] = {"params": params, "headers": headers}
        return self._sent("PUT", lambda http: checked(http.request("PUT", api(path), content=pieces(), **options)))

    def put_artifact(self, path: str, content: bytes, job: str) -> None:
        """Writes an artifact, at its address in MLflow's protocol: `<run>/artifacts/<path>`. job: whose run it is."""
        address = f"/mlflow/api/2.0/mlflow-artifacts/artifacts/{quote(path)}?job={part(job)}"
        self._sent("PUT", lambda http: checked(http.put(address, content=content)))

    @contextmanager
    def streaming(self, path: str, **options: Any) -> Generator[httpx.Response]:
        """Yields a response to read as it arrives. A break raises httpx's error: the reader knows its position."""
        method = options.pop("method", "GET")
        with self.line.http.stream(method, api(path), **options) as response:
            if response.status_code >= 400:
                response.read()
            yield checked(response)

    def reopen(self, pause_s: float = 0.0) -> None:
        """Looks for the server again, without starting one. Raises UnreachableError."""
        time.sleep(pause_s)
        self.close()
        self._line = self._opened(is_starting=False)

    def wait_for_end(self) -> None:
        """Waits until the server that was told to stop has ended, or for a few seconds.

        One that was found by its home folder doesn't write there any more; of one that was told, it is known only that
        it doesn't answer.
        """
        url = self.line.url
        self.close()
        end = time.monotonic() + ENDING_S
        while time.monotonic() < end and (self._has_its_home() or (self.where.url and self._answers(url))):
            time.sleep(0.02)

    def _answers(self, url: str) -> bool:
        try:
            self._answering(url).http.close()
        except DrumbeatError:
            return False
        return True

    def _has_its_home(self) -> bool:
        """Whether a server has the lock of the home folder: it keeps it until it ends."""
        if self.where.url:
            return False
        with suppress(FileNotFoundError), (self.where.home / "server.lock").open("rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
        return False

    def another(self) -> Connection:
        """Returns another connection to the same server, for another thread."""
        return Connection(self.where, is_starting=self.is_starting, idle_stop_s=self.idle_stop_s)

    def close(self) -> None:
        """Closes the connection."""
        if self._line is not None:
            self._line.http.close()
            self._line = None

    def _sent(self, method: str, send: Callable[[httpx.Client], httpx.Response]) -> httpx.Response:
        """Sends it for `AWAY_S` while the database is away. What isn't there to be removed any more, when a try before
        may have been heard, is removed.
        """
        may_be_done = False

        def once_more(http: httpx.Client) -> httpx.Response:
            nonlocal may_be_done
            try:
                return send(http)
            except NotFoundError:
                if method != "DELETE" or not may_be_done:
                    raise
                return httpx.Response(204)
            except (AwayError, httpx.TransportError) as error:
                may_be_done = may_be_done or not isinstance(error, httpx.ConnectError | httpx.ConnectTimeout)
                raise

        has_standby = self.where.has_standby
        end, pause_s = time.monotonic() + (TAKEOVER_S if has_standby else AWAY_S), 0.2
        while True:
            try:
                return self._twice(once_more)
            except (AwayError, UnreachableError) as error:
                if time.monotonic() > end or not (has_standby or isinstance(error, AwayError)):
                    raise
            if has_standby:
                self.close()  # The next try looks for the active server.
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, MAX_PAUSE_S)

    def _twice(self, send: Callable[[httpx.Client], httpx.Response]) -> httpx.Response:
        began, url = time.monotonic(), self.line.url
        try:
            return send(self.line.http)
        except httpx.TransportError as error:
            self.close()
            left_s = SILENCE_S - (time.monotonic() - began)
            if left_s <= 0 or is_silence(error):
                raise unreachable(error, url) from error
        try:
            http = self.line.http
            usual = http.timeout
            http.timeout = httpx.Timeout(left_s, connect=min(left_s, 5.0))
            try:
                return send(http)
            finally:
                http.timeout = usual
        except httpx.TransportError as error:
            raise unreachable(error, self.line.url) from error

    def _opened(self, *, is_starting: bool) -> OpenConnection:
        if self.where.url:
            return self._active(self.where.urls)
        server = discovery.find(self.where.home)
        if server is not None:
            try:
                return self._answering_at_home(server)
            except UnreachableError:
                # It is about to end, or another process has its number by now.
                if not is_starting:
                    raise
        if not is_starting:
            fix = "`drumbeat server start` starts it."
            raise UnreachableError("no server is running", where=str(self.where.home), fix=fix)
        starting = autostart.ServerStart(self.where.home, self.idle_stop_s, silent=server)
        return self._answering_at_home(autostart.start(starting))

    def _active(self, urls: Sequence[str]) -> OpenConnection:
        """Opens a connection to the active one of several servers, or to the only one."""
        trouble: DrumbeatError | None = None
        for url in urls:
            try:
                return self._answering(url, accepts_standby=len(urls) == 1)
            except (UnreachableError, AwayError) as error:
                trouble = trouble if isinstance(trouble, StandbyError) else error
        raise trouble or UnreachableError("no server is named", where="DRUMBEAT_SERVER")

    def _answering_at_home(self, address: ServerAddress) -> OpenConnection:
        """Opens a connection to the server of the home folder, which is trusted with the token: only it can listen
        there.
        """
        if not (self.where.home / home_socket.NAME).exists() and self._has_its_home():
            what = f"the server that runs has version {address.version}; this client doesn't send its token to a port"
            fix = f"End the server: `kill {address.pid}`. The next command starts it again, and its jobs continue."
            raise VersionError(what, where=str(self.where.home), fix=fix)
        return self._answering(address.url, HomeSocketTransport(self.where.home))

    def _answering(
        self, url: str, transport: HomeSocketTransport | None = None, *, accepts_standby: bool = True
    ) -> OpenConnection:
        """Opens a connection to a server that answers and is compatible. Raises StandbyError for one that stands by."""
        is_loopback = transport is not None or urlsplit(url).hostname in LOOPBACK
        headers = {"Authorization": f"Bearer {self.where.secret()}"}
        # A proxy for the outside mustn't see, and can't reach, what is on this machine.
        hello, usual = HELLO if is_loopback else TIMEOUT, TIMEOUT
        if self.where.has_standby:
            hello, usual = TAKEOVER_HELLO, TAKEOVER_TIMEOUT
        http = httpx.Client(
            base_url=url if transport is None else f"http://{urlsplit(url).netloc}", headers=headers, timeout=usual,
            trust_env=not is_loopback, verify=transport is None and self.where.trust(url),
            transport=transport,
        )  # fmt: skip
        try:
            version = checked(http.get(api("/version"), timeout=hello)).json()
            discovery.check_protocol(version["protocol"], version["version"])
            if version.get("stands_by") and not accepts_standby:
                raise StandbyError("this server stands by, and no active one answers", where=url)
            return OpenConnection(http, url, MachineIdentity(version["host"], version["boot_id"]))
        except httpx.TransportError as error:
            http.close()
            raise unreachable(error, url) from error
        except (KeyError, TypeError, ValueError):
            http.close()
            raise UnreachableError("what answers isn't a drumbeat server", where=url) from None
        except UnauthorizedError as error:
            http.close()
            raise self.where.refusal(error) from None
        except DrumbeatError:
            http.close()
            raise


def api(path: str) -> str:
    """Returns the path under the API's root."""
    return f"/api/v1{path}"


def part(text: str) -> str:
    """Returns a name as one segment of a path."""
    return quote(text, safe="")


def checked(response: httpx.Response) -> httpx.Response:
    """Returns the response; raises the error that it carries."""
    if response.status_code < 400:
        return response
    if response.request.method == "HEAD" and response.status_code == 404:
        raise NotFoundError("there is nothing at this address", where=str(response.request.url))  # It has no body.
    where = f"{response.request.method} {response.request.url}"
    try:
        body = response.json()
    except ValueError:
        # The answer to a HEAD has no body.
        code = response.headers.get("drumbeat-error")
        body = {"code": code, "what": response.reason_phrase.lower(), "where": where} if code else None
    if isinstance(body, dict) and "error_code" in body:
        # MLflow's protocol has its own form of errors.
        mlflow_error = cast("dict[str, Any]", body)
        kind = NotFoundError if response.status_code == 404 else RefusedError
        raise kind(str(mlflow_error.get("message", mlflow_error["error_code"])), where=where)
    if not isinstance(body, dict) or "code" not in body:
        raise UnreachableError(f"what answers isn't a drumbeat server (HTTP {response.status_code})", where=where)
    raise from_dict(cast("dict[str, Any]", body))


def is_silence(error: httpx.TransportError) -> bool:
    """Whether a connected server stays silent, as opposed to one that can't be connected to."""
    return isinstance(error, httpx.ReadTimeout | httpx.WriteTimeout)


def _silence_s(error: httpx.TransportError) -> float:
    """Returns how long a failed call has waited."""
    with suppress(RuntimeError):  # It has no request where httpx knows of none.
        return error.request.extensions.get("timeout", {}).get("read") or SILENCE_S
    return SILENCE_S


def unreachable(error: httpx.TransportError, url: str) -> UnreachableError:
    """Translates httpx's error about an unreachable server."""
    match error:
        case httpx.ConnectError():
            what = "no server answers"
        case httpx.TimeoutException() if is_silence(error):
            what = f"the server has not answered for {_silence_s(error):.0f} s"
        case httpx.TimeoutException():
            what = "no server answers"
        case httpx.UnsupportedProtocol() | httpx.ProtocolError():
            what = f"this can't be spoken with: {error}"
        case _:
            what = f"the connection to the server broke: {error or type(error).__name__}"
    return UnreachableError(what, where=url, fix="`drumbeat server status` tells whether it runs.")


def again(line: Connection, send: Callable[[], Any]) -> Any:
    """Returns the result of `send`, called again after a break: it resumes where it stopped, or begins again.

    After a silence of `SILENCE_S` it is called again only if the server identifies itself.
    """
    for attempt in range(TRIES):
        try:
            return send()
        except httpx.TransportError as error:
            trouble: DrumbeatError = unreachable(error, line.line.url)
            has_been_silent = is_silence(error)
        except (UnreachableError, AwayError) as error:
            trouble, cause = error, error.__cause__
            has_been_silent = isinstance(cause, httpx.TransportError) and is_silence(cause)
        if attempt == TRIES - 1:
            raise trouble
        try:
            line.reopen(pause_s=0.1 * 4**attempt)
        except DrumbeatError:
            if has_been_silent:
                raise trouble from None
    raise AssertionError("unreachable")

"""HTTP to the server: one connection per use, kept open, over whichever of the server's addresses answers.

On another machine the server is called by TLS, on this one by the Unix socket in its home: nothing is sent, and nothing
believed, before the other end has proved to be the server.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
from collections.abc import Callable, Collection, Generator
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import quote, urlsplit

from drumbeat.model import home_socket
from drumbeat.model.agent import Enrolment
from drumbeat.model.errors import AwayError, DrumbeatError, StaleError, UnreachableError, from_dict
from drumbeat.node.platform.server_addresses import Servers

if TYPE_CHECKING:
    import ssl

RANK_HEADER = "X-Drumbeat-Rank"
"""In a request to MLflow's API, says which rank made it."""
_TRY_AGAIN = (500, 502, 503, 504)
_OVER = {401: "unauthorized", 404: "not_found", 410: "stale"}
"""Answers to a sync after which this attempt has no server: only in our own words, for another program may answer."""
PROVEN = "The server must be called by https or, on its own machine, by its Unix socket."
CONNECT_S = 10.0
"""How long a server's machine may take to answer at all; the next server is tried then."""
_ANSWERS = {"directive", "size", "missing", "listing", "links", "peers", "auths", "offset", "is_taken"}


class NoAnswerError(UnreachableError):
    """A server may have carried out a request, and did not answer it in time."""


class ServerLink:
    """Sends the requests of one thread to the server.

    Raises StaleError when the attempt is over, UnreachableError when no server answers, and the errors that the server
    itself gives.
    """

    def __init__(self, enrolment: Enrolment, timeout_s: float = 30.0) -> None:
        self._servers = Servers(enrolment)
        self._ca = enrolment.ca
        self._tls: ssl.SSLContext | None = None
        self._base = f"/agent/v1/{quote(enrolment.job, safe='')}/{enrolment.attempt}/{enrolment.node}"
        self._headers = {"Authorization": f"Bearer {enrolment.secret}"}
        self._timeout_s = timeout_s
        self._line: http.client.HTTPConnection | None = None

    def sync(self, status: Any, holds: str, wait_s: float, received: Collection[str] | None = None) -> Any:
        """Tells the status and gives the directive; the server takes up to `wait_s`, if nothing is new.

        received: the ids of the requests that this node has received, None = none are wanted.
        """
        message = {"status": status, "holds": holds, "wait_s": wait_s, "knows_cancel": True}
        body = json.dumps(message if received is None else {**message, "requests": [*received]}).encode()
        return self._json("POST", "/sync", body, is_sync=True).get("directive")

    def answer(self, request_id: str, answer: dict[str, Any]) -> None:
        """Answers a request of the server. Raises NotFoundError when nobody waits for it any more."""
        self._json("POST", f"/answers/{quote(request_id, safe='')}", json.dumps(answer).encode())

    def put(self, path: str, offset: int, data: bytes, hole: int = 0) -> int:
        """Sends a piece of a file; gives the size that the server has of it now. hole: zeros of an output behind it."""
        gap = f"&hole={hole}" if hole else ""
        return self._json("PUT", f"/{quote(path)}?offset={offset}{gap}", data)["size"]

    def commit(self, files: dict[str, dict[str, Any]]) -> list[str]:
        """Makes the outputs visible; gives the paths that the server doesn't have as said (none = it is done)."""
        listed = json.dumps({"files": files}, ensure_ascii=False, separators=(",", ":")).encode()
        return self._json("POST", "/outputs/commit", listed)["missing"]

    def input(self, name: str) -> tuple[Any, str]:
        """All files of an input, and the server's own folder that it is, "" = it is none."""
        answer = self._json("GET", f"/inputs/{quote(name, safe='')}", b"")
        return answer["listing"], str(answer.get("folder", ""))

    def links(self, name: str, paths: list[str]) -> list[Any]:
        """Where each of these files of an input is to be fetched, None = here, with `input_file`."""
        body = json.dumps({"paths": paths}).encode()
        return self._json("POST", f"/inputs/{quote(name, safe='')}/links", body)["links"]

    def output_link(self, name: str) -> str:
        """Where the ranks write an output themselves."""
        return self._json("GET", f"/outputs/{quote(name, safe='')}/link", b"")["links"][0]["url"]

    def peers(self) -> list[Any]:
        """What each node of the attempt said of itself, None for one that hasn't come yet."""
        return self._json("GET", "/peers", b"")["peers"]

    def registries(self) -> dict[str, Any]:
        """`auths`: what the job's images are pulled with, by address; `insecure`: addresses without TLS."""
        return self._json("GET", "/registries", b"")

    def metrics(self, offset: int, lines: bytes) -> int:
        """Sends lines of the node's spool (`model.metric_lines`); gives the offset up to which the server has it."""
        return self._json("POST", f"/metrics?offset={offset}", lines)["offset"]

    def mlflow(
        self, method: str, path: str, body: bytes, headers: dict[str, str], once_within_s: float = 0.0
    ) -> tuple[int, str, bytes]:
        """Sends a rank's request to MLflow's API, with RANK_HEADER; gives status, content type and body of the answer.

        path: as MLflow has it, with its query. An answer in MLflow's own form is returned, refusals among them.
        once_within_s: how long a request may take that must not be carried out twice, 0 = it may be; such a request
        raises NoAnswerError where it isn't known whether a server has carried it out.
        """
        response = self._request(method, f"/mlflow{path}", body, headers, once_within_s)
        try:
            answer = response.read()
        except (OSError, http.client.HTTPException) as error:
            self._drop()
            kind = NoAnswerError if once_within_s else UnreachableError
            raise kind(f"the server broke off: {error}") from error
        is_mlflows = b'"error_code"' in answer
        if is_mlflows and response.status in _TRY_AGAIN:
            raise UnreachableError(f"the server can't answer now (HTTP {response.status})")
        if response.status >= 300 and not is_mlflows:
            raise self._error(response.status, answer)
        return response.status, response.headers.get("Content-Type", ""), answer

    @contextlib.contextmanager
    def input_file(self, name: str, path: str, offset: int, length: int) -> Generator[http.client.HTTPResponse]:
        """A range of a file of an input, to be read as a stream. What isn't read to its end costs the connection."""
        wanted = {"Range": f"bytes={offset}-{offset + length - 1}"}
        response = self._request("GET", f"/inputs/{quote(name, safe='')}/files/{quote(path)}", b"", wanted)
        try:
            if response.status != 206:
                raise self._error(response.status, response.read())
            yield response
        finally:
            if not response.isclosed():
                self._drop()

    @contextlib.contextmanager
    def snapshot(self, digest: str) -> Generator[http.client.HTTPResponse]:
        """The bytes of a snapshot, to be read as a stream."""
        with self._stream(f"/snapshots/{quote(digest)}") as response:
            yield response

    @contextlib.contextmanager
    def tool(self, name: str, machine: str) -> Generator[http.client.HTTPResponse]:
        """A program of the server's for machines of this kind (`uname -m`), to be read as a stream."""
        with self._stream(f"/tools/{quote(name)}?machine={quote(machine)}") as response:
            yield response

    @contextlib.contextmanager
    def _stream(self, path: str) -> Generator[http.client.HTTPResponse]:
        """The answer to a request, to be read as a stream; the connection isn't used again."""
        try:
            yield self._begun(path)
        finally:
            self._drop()

    def _begun(self, path: str) -> http.client.HTTPResponse:
        """The answer whose body follows. Raises the error that the server gives."""
        response = self._request("GET", path, b"")
        if response.status != 200:
            raise self._error(response.status, response.read())
        return response

    def receive_stream(self, path: str) -> http.client.HTTPResponse:
        """Begins to receive a body of any length, without a limit of time; read it with `read1`. Ends by `break_off`.

        Raises the error that the server gives, NotFoundError among them.
        """
        response = self._begun(path)
        self._hold_open()
        return response

    def send_stream(self, path: str) -> Callable[[bytes], None]:
        """Begins to send a body of any length, and returns what sends a piece of it; b"" ends it. Raises OSError."""
        line = self._line or self._open()
        line.putrequest("POST", self._base + path)
        for name, value in {**self._headers, "Transfer-Encoding": "chunked"}.items():
            line.putheader(name, value)
        line.endheaders()
        self._hold_open()
        return lambda piece: line.send(b"%x\r\n%b\r\n" % (len(piece), piece))

    def _hold_open(self) -> None:
        """Lets the connection idle; keep-alive probes notice a server's machine that is gone (tcp(7))."""
        if self._line is None:
            return
        connection = self._line.sock
        connection.settimeout(None)
        if connection.family == socket.AF_UNIX:
            return  # On one machine the kernel tells of every end.
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in ((socket.TCP_KEEPIDLE, 30), (socket.TCP_KEEPINTVL, 10), (socket.TCP_KEEPCNT, 3)):
            connection.setsockopt(socket.IPPROTO_TCP, option, value)

    def finish_stream(self) -> None:
        """Reads the answer to a body that was sent to its end."""
        if self._line is not None:
            self._line.getresponse().read()

    def close(self) -> None:
        """Closes the connection; the next request opens another."""
        self._drop()

    def break_off(self) -> None:
        """Ends a stream, also one that another thread waits for."""
        connection = self._line.sock if self._line else None
        if connection is not None:
            with contextlib.suppress(OSError):
                socket.socket.shutdown(connection, socket.SHUT_RDWR)  # Without TLS's own goodbye, which may wait.

    def _json(self, method: str, path: str, body: bytes, *, is_sync: bool = False) -> dict[str, Any]:
        response = self._request(method, path, body)
        try:
            text = response.read()
        except (OSError, http.client.HTTPException) as error:
            self._drop()
            raise UnreachableError(f"the server broke off: {error}") from error
        if response.status != 200:
            raise self._error(response.status, text, is_sync=is_sync)
        try:
            return _answer(text)
        except UnreachableError:
            self._leave()
            raise

    def _request(
        self, method: str, path: str, body: bytes, more: dict[str, str] | None = None, once_within_s: float = 0.0
    ) -> http.client.HTTPResponse:
        """The answer of the first server that gives one. A connection closed for idling is reopened at once."""
        is_closed = self._line is not None and self._line.sock is None  # By the server, in good order.
        if is_closed or once_within_s:  # Whether one that breaks had only idled for too long can't be told.
            self._drop()
        if not self._servers:
            raise UnreachableError("plain http would show this job's secret to the network", fix=PROVEN)
        trouble: Exception | None = None
        for _ in range(len(self._servers) + 1):
            was_open, is_sent = self._line is not None, False
            try:
                line = self._line or self._open()
                line.sock.settimeout(once_within_s or self._timeout_s)
                is_sent = True
                line.request(method, self._base + path, body or None, {**self._headers, **(more or {})})
                return line.getresponse()
            except (OSError, http.client.HTTPException) as error:
                trouble = error
                self._drop()
                if was_open and not isinstance(error, TimeoutError):
                    continue  # It had only idled for too long.
                if is_sent and once_within_s:
                    raise NoAnswerError(f"the server did not answer: {error}", where=self._servers.first) from error
                self._servers.next()
        raise UnreachableError(_failure(trouble), where=str(self._servers)) from trouble

    def _open(self) -> http.client.HTTPConnection:
        self._servers.look()
        timeout_s = min(CONNECT_S, self._timeout_s)
        if path := home_socket.path_of(self._servers.first):
            line: http.client.HTTPConnection = _UnixConnection(path, timeout_s)
        else:
            address = urlsplit(self._servers.first)
            self._tls = self._tls or _tls(self._ca)
            host = address.hostname or ""
            line = http.client.HTTPSConnection(host, address.port, timeout=timeout_s, context=self._tls)
        line.connect()
        line.timeout = self._timeout_s
        line.sock.settimeout(self._timeout_s)
        self._line = line
        return line

    def _drop(self) -> None:
        if self._line is not None:
            self._line.close()
            self._line = None

    def _error(self, status: int, text: bytes, *, is_sync: bool = False) -> DrumbeatError:
        try:
            error = from_dict(json.loads(text))
        except (ValueError, TypeError, AttributeError):
            self._leave()
            return UnreachableError(f"what answers isn't a drumbeat server (HTTP {status})")
        is_over = isinstance(error, StaleError) or (is_sync and _OVER.get(status) == error.code)
        if is_over and self._servers.is_first_believed:
            return StaleError(error.what, where=error.where, fix=error.fix)
        if is_over or isinstance(error, AwayError):  # A server without its database is like one that can't answer.
            self._leave()
            return UnreachableError(error.what, where=error.where, fix=error.fix)
        if type(error) is DrumbeatError or (status >= 500 and not isinstance(error, UnreachableError)):
            self._leave()  # A stranger, or a defect; what a store keeps waiting is so at every server.
        return error

    def _leave(self) -> None:
        """Another server may be better off."""
        if len(self._servers) > 1:
            self._drop()
            self._servers.next()


class _UnixConnection(http.client.HTTPConnection):
    """HTTP over the socket of the server of this machine."""

    def __init__(self, path: str, timeout_s: float) -> None:
        super().__init__(home_socket.HOST, timeout=timeout_s)
        self._path = path

    def connect(self) -> None:
        """Raises OSError; PermissionError where another user listens."""
        self.sock = home_socket.connect(self._path, self.timeout)


def _tls(ca: str) -> ssl.SSLContext:
    """Believes the enrolment's authority and no other, and only for the address that was called."""
    import ssl

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    try:
        context.load_verify_locations(cadata=ca)
    except (ssl.SSLError, ValueError):
        what = "the enrolment has no certificate to check an https server with"
        raise UnreachableError(what, fix="A server gives one with each of its https addresses.") from None
    return context


def _failure(trouble: Exception | None) -> str:
    # By its attribute: where no https is spoken nothing of ssl is needed.
    if why := getattr(trouble, "verify_message", ""):
        return f"what answers shows another certificate than this job's server would: {why}"
    return f"no server answers: {trouble}"


def _answer(text: bytes) -> dict[str, Any]:
    """The answer; it must have one of the keys of a server's answers, since another program may have taken the port."""
    try:
        answer = json.loads(text)
    except ValueError:
        answer = None
    if not isinstance(answer, dict) or not _ANSWERS & cast("dict[str, Any]", answer).keys():
        raise UnreachableError("what answers isn't a drumbeat server")
    return cast("dict[str, Any]", answer)

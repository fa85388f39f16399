"""HTTP to the server: one connection per use, kept open, to whichever of the server's addresses answers.

The server is called by TLS from another machine, and by the Unix socket in its home from its own: nothing is sent, and
nothing trusted, before the other end has proved to be the server.
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
from drumbeat.model.server_era import HEADER as ERA
from drumbeat.node.platform.server_addresses import Servers
from drumbeat.node.platform.server_era import heard_era, note_era

if TYPE_CHECKING:
    import ssl

RANK_HEADER = "X-Drumbeat-Rank"
"""The header that names the rank in requests to MLflow's API."""
_TRY_AGAIN = (500, 502, 503, 504)
_OVER = {401: "unauthorized", 404: "not_found", 410: "stale"}
"""Responses to a sync that end this attempt; only with drumbeat's own error codes, because
another program may answer.
"""
PROVEN = "The server must be called by https or, on its own machine, by its Unix socket."
CONNECT_S = 10.0
"""How long a server's machine may take to answer; after that the next server is tried."""
_ANSWERS = {"directive", "size", "missing", "listing", "links", "peers", "auths", "offset", "is_taken", "environment"}


class NoAnswerError(UnreachableError):
    """Raised when a server may have carried out a request without answering in time."""


class ServerLink:
    """Sends the requests of one thread to the server.

    Raises StaleError when the attempt is over, UnreachableError when no server answers, and the server's own errors.
    """

    def __init__(self, enrolment: Enrolment, timeout_s: float = 30.0) -> None:
        self._servers, self._enrolment = Servers(enrolment), enrolment
        self._ca = enrolment.ca
        self._tls: ssl.SSLContext | None = None
        self._base = f"/agent/v1/{quote(enrolment.job, safe='')}/{enrolment.attempt}/{enrolment.node}"
        self._headers = {"Authorization": f"Bearer {enrolment.secret}"}
        self._timeout_s = timeout_s
        self._line: http.client.HTTPConnection | None = None

    def sync(
        self, status: Any, holds: str, wait_s: float, received: Collection[str] | None = None, proof: str = ""
    ) -> Any:
        """Sends the status and returns the directive; without news the server takes up to `wait_s`.

        received: the ids of the requests that this node has received, None = requests aren't supported. proof: what
        shows that this is the agent that enrolled, so that it may go on with another job; "" = it can't.
        """
        message = {"status": status, "holds": holds, "wait_s": wait_s, "knows_cancel": True, "takes_brief_roster": True}
        if proof:
            message["proof"] = proof
        body = json.dumps(message if received is None else {**message, "requests": [*received]}).encode()
        return self._json("POST", "/sync", body, is_sync=True).get("directive")

    def answer(self, request_id: str, answer: dict[str, Any]) -> None:
        """Answers a request of the server. Raises NotFoundError when the server no longer waits for it."""
        self._json("POST", f"/answers/{quote(request_id, safe='')}", json.dumps(answer).encode())

    def put(self, path: str, offset: int, data: bytes, hole: int = 0) -> int:
        """Sends a piece of a file; returns the size that the server has now. hole: zeros that
        follow it in an output.
        """
        gap = f"&hole={hole}" if hole else ""
        return self._json("PUT", f"/{quote(path)}?offset={offset}{gap}", data)["size"]

    def commit(self, files: dict[str, dict[str, Any]]) -> list[str]:
        """Makes the outputs visible; returns the paths that differ at the server (empty = done)."""
        listed = json.dumps({"files": files}, ensure_ascii=False, separators=(",", ":")).encode()
        return self._json("POST", "/outputs/commit", listed)["missing"]

    def input(self, name: str) -> tuple[Any, str]:
        """All files of an input, and its folder on the server's machine, "" = none."""
        answer = self._json("GET", f"/inputs/{quote(name, safe='')}", b"")
        return answer["listing"], str(answer.get("folder", ""))

    def links(self, name: str, paths: list[str]) -> list[Any]:
        """The URL of each of these files of an input, None = by `input_file`."""
        body = json.dumps({"paths": paths}).encode()
        return self._json("POST", f"/inputs/{quote(name, safe='')}/links", body)["links"]

    def output_link(self, name: str) -> str:
        """The URL to which ranks write an output directly."""
        return self._json("GET", f"/outputs/{quote(name, safe='')}/link", b"")["links"][0]["url"]

    def roster(self, digest: str) -> bytes:
        """The whole roster of that digest, as JSON that was packed by zlib."""
        response = self._begun(f"/rosters/{quote(digest)}")
        try:
            return response.read()
        except (OSError, http.client.HTTPException) as error:
            self._drop()
            raise UnreachableError(f"the server broke off: {error}") from error

    def peers(self) -> list[Any]:
        """What each node of the attempt reported about itself, None for one without a report."""
        return self._json("GET", "/peers", b"")["peers"]

    def registries(self) -> dict[str, Any]:
        """`auths`: the credentials for the job's images, by address; `insecure`: addresses without TLS."""
        return self._json("GET", "/registries", b"")

    def metrics(self, offset: int, lines: bytes) -> int:
        """Sends lines of the node's spool (`model.metric_lines`); returns the offset up to which the server has it."""
        return self._json("POST", f"/metrics?offset={offset}", lines)["offset"]

    def mlflow(
        self, method: str, path: str, body: bytes, headers: dict[str, str], once_within_s: float = 0.0
    ) -> tuple[int, str, bytes]:
        """Sends a rank's request to MLflow's API, with RANK_HEADER; returns status, content type and body of the
        answer.

        path: MLflow's, with its query. An answer in MLflow's own format is returned, including refusals. once_within_s:
        how long a request may take that must not be carried out twice, 0 = it may be; such a request raises
        NoAnswerError if it is unclear whether a server has carried it out.
        """
        response = self._request(method, f"/mlflow{path}", body, headers, once_within_s)
        try:
            answer = response.read()
        except (OSError, http.client.HTTPException) as error:
            self._drop()
            kind = NoAnswerError if once_within_s else UnreachableError
            raise kind(f"the server closed the connection: {error}") from error
        is_mlflows = b'"error_code"' in answer
        if is_mlflows and response.status in _TRY_AGAIN:
            raise UnreachableError(f"the server can't answer right now (HTTP {response.status})")
        if response.status >= 300 and not is_mlflows:
            raise self._error(response.status, answer)
        return response.status, response.headers.get("Content-Type", ""), answer

    @contextlib.contextmanager
    def input_file(self, name: str, path: str, offset: int, length: int) -> Generator[http.client.HTTPResponse]:
        """A range of an input's file, as a stream. An unread remainder costs the connection."""
        with self._range(f"/inputs/{quote(name, safe='')}/files/{quote(path)}", offset, length) as response:
            yield response

    @contextlib.contextmanager
    def _range(self, path: str, offset: int, length: int) -> Generator[http.client.HTTPResponse]:
        wanted = {"Range": f"bytes={offset}-{offset + length - 1}"}
        response = self._request("GET", path, b"", wanted)
        try:
            if response.status != 206:
                raise self._error(response.status, response.read())
            yield response
        finally:
            if not response.isclosed():
                self._drop()

    @contextlib.contextmanager
    def snapshot(self, digest: str) -> Generator[http.client.HTTPResponse]:
        """The bytes of a snapshot, as a stream."""
        with self._stream(f"/snapshots/{quote(digest)}") as response:
            yield response

    @contextlib.contextmanager
    def tool(self, name: str, machine: str) -> Generator[http.client.HTTPResponse]:
        """A program that the server has for this kind of machine (`uname -m`), as a stream."""
        with self._stream(f"/tools/{quote(name)}?machine={quote(machine)}") as response:
            yield response

    @contextlib.contextmanager
    def _stream(self, path: str) -> Generator[http.client.HTTPResponse]:
        """The answer to a request, as a stream; the connection isn't reused."""
        try:
            yield self._begun(path)
        finally:
            self._drop()

    def _begun(self, path: str) -> http.client.HTTPResponse:
        """The response before its body. Raises the server's error."""
        response = self._request("GET", path, b"")
        if response.status != 200:
            raise self._error(response.status, response.read())
        return response

    def receive_stream(self, path: str) -> http.client.HTTPResponse:
        """Begins to receive a body of any length, without a time limit; read it with `read1`, end it with `break_off`.

        Raises the server's error, such as NotFoundError.
        """
        response = self._begun(path)
        self._hold_open()
        return response

    def send_stream(self, path: str) -> Callable[[bytes], None]:
        """Begins to send a body of any length; returns a function that sends a piece of it, b"" = the end. Raises
        OSError.
        """
        line = self._line or self._open()
        line.putrequest("POST", self._base + path)
        for name, value in {**self._headers, "Transfer-Encoding": "chunked"}.items():
            line.putheader(name, value)
        line.endheaders()
        self._hold_open()
        return lambda piece: line.send(b"%x\r\n%b\r\n" % (len(piece), piece))

    def _hold_open(self) -> None:
        """Lets the connection idle; keep-alive probes detect that the server's machine is gone (tcp(7))."""
        if self._line is None:
            return
        connection = self._line.sock
        connection.settimeout(None)
        if connection.family == socket.AF_UNIX:
            return  # On one machine the kernel reports every end.
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in ((socket.TCP_KEEPIDLE, 30), (socket.TCP_KEEPINTVL, 10), (socket.TCP_KEEPCNT, 3)):
            connection.setsockopt(socket.IPPROTO_TCP, option, value)

    def finish_stream(self) -> None:
        """Reads the answer to a body that was sent completely."""
        if self._line is not None:
            self._line.getresponse().read()

    def close(self) -> None:
        """Closes the connection; the next request opens another."""
        self._drop()

    def break_off(self) -> None:
        """Ends a stream, even one for which another thread waits."""
        connection = self._line.sock if self._line else None
        if connection is not None:
            with contextlib.suppress(OSError):
                socket.socket.shutdown(connection, socket.SHUT_RDWR)  # Without TLS's closing message, which may block.

    def _json(self, method: str, path: str, body: bytes, *, is_sync: bool = False) -> dict[str, Any]:
        response = self._request(method, path, body)
        try:
            text = response.read()
        except (OSError, http.client.HTTPException) as error:
            self._drop()
            raise UnreachableError(f"the server closed the connection: {error}") from error
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
        """The response of the first server that answers. A connection that was closed while
        idle is reopened at once.
        """
        is_closed = self._line is not None and self._line.sock is None  # Closed by the server, in an orderly way.
        if is_closed or once_within_s:  # It is unclear whether a broken connection had only idled for too long.
            self._drop()
        if not self._servers:
            raise UnreachableError("plain http would reveal this job's secret on the network", fix=PROVEN)
        trouble: Exception | None = None
        for _ in range(len(self._servers) + 1):
            was_open, is_sent = self._line is not None, False
            try:
                line = self._line or self._open()
                line.sock.settimeout(once_within_s or self._timeout_s)
                is_sent = True
                line.request(method, self._base + path, body or None, self._headers_of(more))
                response = line.getresponse()
                if not note_era(self._enrolment, response.headers.get(ERA, "")):
                    response.close()
                    raise ConnectionError("a server answers that was replaced by a copy of its home")
                return response
            except (OSError, http.client.HTTPException) as error:
                trouble = error
                self._drop()
                if was_open and not isinstance(error, TimeoutError):
                    continue  # The connection had only idled for too long.
                if is_sent and once_within_s:
                    raise NoAnswerError(f"the server did not answer: {error}", where=self._servers.first) from error
                self._servers.next()
        raise UnreachableError(_failure(trouble), where=str(self._servers)) from trouble

    def _headers_of(self, more: dict[str, str] | None) -> dict[str, str]:
        era = heard_era(self._enrolment)
        return {**self._headers, **(more or {}), **({ERA: era} if era else {})}

    def _open(self) -> http.client.HTTPConnection:
        self._servers.look()
        timeout_s = min(CONNECT_S, self._timeout_s)
        if path := home_socket.socket_path(self._servers.first):
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
            return UnreachableError(f"another program than a drumbeat server answers (HTTP {status})")
        is_over = isinstance(error, StaleError) or (is_sync and _OVER.get(status) == error.code)
        if is_over and self._servers.is_first_trusted:
            return StaleError(error.what, where=error.where, fix=error.fix)
        if is_over or isinstance(error, AwayError):  # A server without its database counts as unable to answer.
            self._leave()
            return UnreachableError(error.what, where=error.where, fix=error.fix)
        if type(error) is DrumbeatError or (status >= 500 and not isinstance(error, UnreachableError)):
            self._leave()  # Another program, or a defect; a slow store would be slow for every server.
        return error

    def _leave(self) -> None:
        """Moves on to another server, which may work better."""
        if len(self._servers) > 1:
            self._drop()
            self._servers.next()


class _UnixConnection(http.client.HTTPConnection):
    """HTTP over the socket of the server on this machine."""

    def __init__(self, path: str, timeout_s: float) -> None:
        super().__init__(home_socket.HOST, timeout=timeout_s)
        self._path = path

    def connect(self) -> None:
        """Raises OSError; PermissionError where another user listens."""
        self.sock = home_socket.connect(self._path, self.timeout)


def _tls(ca: str) -> ssl.SSLContext:
    """Trusts only the enrolment's certificate authority, and only for the called address."""
    import ssl

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    try:
        context.load_verify_locations(cadata=ca)
    except (ssl.SSLError, ValueError):
        what = "the enrolment has no certificate to verify an https server"
        raise UnreachableError(what, fix="A server announces one with each of its https addresses.") from None
    return context


def _failure(trouble: Exception | None) -> str:
    # By its attribute, so that ssl isn't imported without https.
    if why := getattr(trouble, "verify_message", ""):
        return f"the answering program's certificate isn't that of this job's server: {why}"
    return f"no server answers: {trouble}"


def _answer(text: bytes) -> dict[str, Any]:
    """The answer. It must have a key of a server's answers, because another program may have taken the port."""
    try:
        answer = json.loads(text)
    except ValueError:
        answer = None
    if not isinstance(answer, dict) or not _ANSWERS & cast("dict[str, Any]", answer).keys():
        raise UnreachableError("another program than a drumbeat server answers")
    return cast("dict[str, Any]", answer)

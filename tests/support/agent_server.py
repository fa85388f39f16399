"""A server for agents alone: it speaks their HTTP, keeps what they send in memory, and wants what a test tells it to.

No database, no engine, no decisions: `order` says what the agents should do, `wait_for` what they should come to.
"""

from __future__ import annotations

import hashlib
import json
import socket
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qs, unquote, urlsplit

from drumbeat.model import home_socket, wire
from drumbeat.model.agent import AgentStatus, Directive, Order, Phase
from drumbeat.model.errors import DrumbeatError, NotFoundError, StaleError, UnauthorizedError
from drumbeat.model.logs import LogName
from drumbeat.model.packed_roster import packed
from drumbeat.model.roster import Roster

_STATUS = {"stale": 410, "not_found": 404, "unauthorized": 401}


class AgentServer:
    """One attempt of one job. Its agents must say `secret_of` their node. Use it in a `with`."""

    def __init__(self, attempt: int = 1, secret: str = "fake-secret") -> None:
        self.attempt, self.secret = attempt, secret
        self.said: dict[int, list[AgentStatus]] = {}
        self.calls: Counter[int] = Counter()
        """How often each node has been heard, with something new to say or not."""
        self.logs: dict[str, bytearray] = {}
        self.metrics: dict[int, bytearray] = {}
        """The lines of each node's metrics."""
        self.outputs: dict[tuple[int, str], bytearray] = {}
        self.shown: dict[int, dict[str, Any]] = {}
        self.snapshots: dict[str, bytes] = {}
        self.broken_snapshots: list[bytes] = []
        """What is answered first, one after the other, whatever is asked for."""
        self.asked_snapshots: list[str] = []
        self.fetched_rosters = 0
        self.is_over = False
        self.most_bytes: int | None = None
        """Takes no more than so many bytes of a piece; None = all."""
        self.never_right = ""
        """The path of an output that is never there as it was said to be."""
        self._wanted: dict[int, Directive] = {}
        self._rosters: dict[str, bytes] = {}
        """Those that agents may fetch, by digest."""
        self._news = threading.Condition()
        self._http: _Server | None = None
        self._home = tempfile.TemporaryDirectory(prefix="agent-server-", ignore_cleanup_errors=True)

    def __enter__(self) -> Self:
        self.come_up()
        return self

    def __exit__(self, *_: object) -> None:
        self.go_down()
        self._home.cleanup()

    def secret_of(self, node: int) -> str:
        """What the agent of a node must say."""
        return f"{self.secret}-of-{node}"

    @property
    def url(self) -> str:
        """What an enrolment names, the same, up or down."""
        return home_socket.address_in(self._home.name)

    def come_up(self) -> None:
        """Listens."""
        self._http = _Server(home_socket.socket_path(self.url), self)
        threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def go_down(self) -> None:
        """Like a killed server: nothing listens, and every connection breaks."""
        if self._http is not None:
            self._http.shutdown()
            self._http.server_close()
            self._http.break_connections()
            self._http = None

    def order(self, order: Order, round: int = 1, *, nodes: int = 1, grace_s: float = 5.0) -> None:
        """Wants this of nodes 0 … n-1. RUN carries the roster of what they said last."""
        with self._news:
            roster = self._roster(round, nodes) if order is Order.RUN else None
            for node in range(nodes):
                self._wanted[node] = Directive(order, self.attempt, round, roster, grace_s)
            self._news.notify_all()

    def status(self, node: int = 0) -> AgentStatus | None:
        """What the node said last."""
        with self._news:
            return self.said[node][-1] if self.said.get(node) else None

    def wait_for(self, is_so: Callable[[], Any], within_s: float = 120.0) -> Any:
        """Returns what `is_so` gives once that is true. Raises TimeoutError with what the agents said last."""
        deadline = time.monotonic() + within_s
        while not (found := is_so()):
            if time.monotonic() > deadline:
                raise TimeoutError(f"not within {within_s} s; last words: { {n: s[-1] for n, s in self.said.items()} }")
            with self._news:
                self._news.wait(0.01)
        return found

    def wait_for_phase(self, *phases: Phase, round: int = 1, nodes: int = 1, within_s: float = 120.0) -> None:
        """Waits until nodes 0 … n-1 all say one of these."""

        def is_so() -> bool:
            said = [self.status(node) for node in range(nodes)]
            return all(s is not None and s.phase in phases and s.round == round for s in said)

        self.wait_for(is_so, within_s)

    def add_snapshot(self, data: bytes) -> str:
        """Keeps a tar file; gives its SHA-256."""
        digest = hashlib.sha256(data).hexdigest()
        self.snapshots[digest] = data
        return digest

    def log(self, rank: int, round: int = 1, node: int = 0) -> bytes:
        """What arrived of a rank's log; of the node's own with rank -1."""
        return bytes(self.logs.get(LogName(self.attempt, round, node, rank).path, b""))

    def _roster(self, round: int, nodes: int) -> Roster:
        said = [self.said[node][-1] for node in range(nodes)]
        ports, more = tuple(each.port for each in said), tuple(each.more_ports for each in said)
        return Roster(self.attempt, round, tuple(each.member for each in said), ports[0], ports, more)

    # --- what agents ask ------------------------------------------------------------------------------------------

    def answer_sync(self, node: int, body: dict[str, Any]) -> dict[str, Any]:
        """Notes the status; answers as soon as it wants something other than what the agent holds."""
        deadline = time.monotonic() + body["wait_s"]
        with self._news:
            self.calls[node] += 1
            self._hear(node, wire.from_wire(AgentStatus, body["status"]))
            while self._key(node) in ("", body["holds"]) and not self.is_over:
                if not self._news.wait(max(0.0, deadline - time.monotonic())) and time.monotonic() >= deadline:
                    break
            self.check()
            wanted = self._wanted.get(node, Directive(Order.PREPARE, self.attempt, 0))
        return {"directive": wire.to_wire(self._brief(wanted) if body.get("takes_brief_roster") else wanted)}

    def answer_roster(self, digest: str) -> bytes:
        """The whole roster of that digest; each fetch is noted."""
        with self._news:
            if digest not in self._rosters:
                raise NotFoundError(f"no roster {digest}")
            self.fetched_rosters += 1
            return self._rosters[digest]

    def _brief(self, directive: Directive) -> Directive:
        """As the real server sends it in a gang of many nodes."""
        if directive.roster is None:
            return directive
        file = packed(directive.roster)
        self._rosters[file.digest] = file.data
        return replace(directive, roster=directive.roster.brief(file.digest))

    def answer_snapshot(self, digest: str) -> bytes:
        """What there is under the digest; each question is noted."""
        with self._news:
            if digest not in self.snapshots:
                raise NotFoundError(f"no snapshot {digest}")
            self.asked_snapshots.append(digest)
            self._news.notify_all()
            return self.broken_snapshots.pop(0) if self.broken_snapshots else self.snapshots[digest]

    def answer_put(self, node: int, path: str, offset: int, data: bytes) -> dict[str, Any]:
        """Adds what lies beyond the size."""
        with self._news:
            if path.startswith("logs/"):
                kept = self.logs.setdefault(path, bytearray())
            else:
                kept = self.outputs.setdefault((node, path.removeprefix("outputs/")), bytearray())
            if offset <= len(kept):
                kept += data[len(kept) - offset :][: self.most_bytes]
            self._news.notify_all()
            return {"size": len(kept)}

    def answer_metrics(self, node: int, offset: int, lines: bytes) -> dict[str, Any]:
        """Adds what lies beyond the end of the node's lines."""
        with self._news:
            kept = self.metrics.setdefault(node, bytearray())
            if offset <= len(kept):
                kept += lines[len(kept) - offset :]
            return {"offset": len(kept)}

    def answer_commit(self, node: int, files: dict[str, Any]) -> dict[str, Any]:
        """Shows the files if all are as said; forgets those that aren't."""
        with self._news:
            missing = [path for path, said in files.items() if not self._has(node, path, said)]
            for path in missing:
                self.outputs.pop((node, path), None)
            if not missing:
                self.shown[node] = files
            return {"missing": missing}

    def check(self) -> None:
        """Refuses every word once the attempt is over."""
        if self.is_over:
            raise StaleError("attempt has been replaced")

    def break_off(self) -> None:
        """Says from now on that the attempt is over."""
        with self._news:
            self.is_over = True
            self._news.notify_all()

    def _has(self, node: int, path: str, said: dict[str, Any]) -> bool:
        kept = bytes(self.outputs.get((node, path), b""))
        return path != self.never_right and said == {"size": len(kept), "sha256": hashlib.sha256(kept).hexdigest()}

    def _key(self, node: int) -> str:
        wanted = self._wanted.get(node)
        return wanted.key if wanted else ""

    def _hear(self, node: int, status: AgentStatus) -> None:
        known = self.said.setdefault(node, [])
        if not known or status.serial > known[-1].serial:
            known.append(status)
            self._news.notify_all()


class HomeSocketServer(ThreadingHTTPServer):
    """HTTP at a Unix socket, as agents of the server's machine call it."""

    daemon_threads = True

    def __init__(self, path: str, handler: type[BaseHTTPRequestHandler]) -> None:
        super().__init__((home_socket.HOST, 0), handler, bind_and_activate=False)
        self.socket.close()
        self.socket = home_socket.listen(path)


class _Server(HomeSocketServer):
    def __init__(self, path: str, owner: AgentServer) -> None:
        self.owner = owner
        self._connections: set[socket.socket] = set()
        super().__init__(path, _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        self._connections.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._connections.discard(request)
        super().shutdown_request(request)

    def break_connections(self) -> None:
        """Cuts them in the middle of whatever they do."""
        for each in list(self._connections):
            try:
                each.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A connection that broke is what these tests are about."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server  # pyright: ignore[reportIncompatibleVariableOverride] (this handler is started by no other)

    def do_POST(self) -> None:
        """/sync, /metrics and /outputs/commit."""
        self._answer(self._post)

    def do_PUT(self) -> None:
        """/logs/… and /outputs/…."""
        self._answer(self._put)

    def do_GET(self) -> None:
        """/snapshots/… and /rosters/…."""
        self._answer(self._get)

    def log_message(self, format: str, *args: Any) -> None:
        """Says nothing."""

    def _answer(self, give: Callable[[int, str, bytes], bytes]) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        try:
            node, path = self._place()
            status, answer = 200, give(node, path, body)
        except DrumbeatError as error:
            status, answer = _STATUS.get(error.code, 500), json.dumps(error.as_dict()).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def _place(self) -> tuple[int, str]:
        _, agent, version, _job, attempt, node, *rest = urlsplit(self.path).path.split("/")
        if self.headers.get("Authorization") != f"Bearer {self.server.owner.secret_of(int(node))}":
            raise UnauthorizedError("wrong secret")
        if (agent, version, attempt) != ("agent", "v1", str(self.server.owner.attempt)):
            raise NotFoundError(f"nothing at {self.path}")
        self.server.owner.check()
        return int(node), unquote("/".join(rest))

    def _post(self, node: int, path: str, body: bytes) -> bytes:
        owner = self.server.owner
        if path == "sync":
            return json.dumps(owner.answer_sync(node, json.loads(body))).encode()
        if path == "metrics":
            return json.dumps(owner.answer_metrics(node, self._offset(), body)).encode()
        return json.dumps(owner.answer_commit(node, json.loads(body)["files"])).encode()

    def _put(self, node: int, path: str, body: bytes) -> bytes:
        return json.dumps(self.server.owner.answer_put(node, path, self._offset(), body)).encode()

    def _offset(self) -> int:
        return int(parse_qs(urlsplit(self.path).query)["offset"][0])

    def _get(self, _node: int, path: str, _body: bytes) -> bytes:
        if path.startswith("rosters/"):
            return self.server.owner.answer_roster(path.removeprefix("rosters/"))
        digest = path.removeprefix("snapshots/")
        return self.server.owner.answer_snapshot(digest)

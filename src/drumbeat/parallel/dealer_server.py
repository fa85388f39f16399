"""The dealer's thread: hands out mini-batches to the nodes that connect to it, and takes their results."""

from __future__ import annotations

import errno
import selectors
import socket
import sys
import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from drumbeat.parallel import messages
from drumbeat.parallel.dealer import DONE, Dealer, Outcome
from drumbeat.parallel.messages import Message, MessageError, MessageParser
from drumbeat.parallel.mini_batches import MiniBatch
from drumbeat.parallel.settings import ParallelSettings

_TICK_S = 0.5
_REPORT_INTERVAL_S = 10.0
_SILENCE_S = 60.0
"""A step that prints nothing for long would look as if it hung."""
_MAX_FAILURES_SHOWN = 50
_CLOSING_TIMEOUT_S = 120.0
"""How long nodes that haven't connected yet, or that don't listen, are waited for when the step has ended."""


@dataclass(eq=False)
class NodeConnection:
    """The connection of one node."""

    socket: socket.socket
    nonce: str
    incoming: MessageParser = field(default_factory=lambda: MessageParser(messages.MAX_PROOF_BYTES))
    outgoing: bytearray = field(default_factory=bytearray)
    is_proven: bool = False
    is_told: bool = False
    """Whether it has been told that the step has ended."""
    since: float = field(default_factory=time.monotonic)
    workers: int = 0
    dealt: dict[int, int] = field(default_factory=dict[int, int])
    """The mini-batch of each of its workers that has one."""


class DealerServer:
    """Serves one dealer until the step has ended."""

    def __init__(self, dealer: Dealer, batches: Sequence[MiniBatch], settings: ParallelSettings, nodes: int) -> None:
        self._dealer, self._batches, self._settings = dealer, batches, settings
        self._missing_nodes = nodes
        """Nodes that haven't heard yet that the step has ended."""
        self._selector = selectors.DefaultSelector()
        self._nodes: set[NodeConnection] = set()
        self._waiting: deque[tuple[NodeConnection, int]] = deque()
        self._began_at = self._progress_at = time.monotonic()
        self._reported = (dealer.summary(), self._began_at)
        self._failures_shown = 0
        self._secret = ""
        self._thread = threading.Thread(target=self._run, name="dealer", daemon=True)
        self.error: BaseException | None = None

    def start(self, host: str, port: int, secret: str) -> int:
        """Listens at the address, and starts the thread; returns the port. Raises OSError."""
        self._secret = secret
        listener = _listener(host, port)
        listener.settimeout(0)
        self._selector.register(listener, selectors.EVENT_READ, None)
        self._thread.start()
        return int(listener.getsockname()[1])

    def wait(self) -> None:
        """Waits until all nodes know that the step has ended. Raises what ended the thread."""
        self._thread.join()
        if self.error is not None:
            raise self.error

    # --- the thread -----------------------------------------------------------------------------------------------
    def _run(self) -> None:
        try:
            while not self._dealer.over:
                self._turn(_TICK_S)
                self._look_at_clock()
            self._report(is_last=True)
            if self._dealer.over != DONE:
                # Before any node ends: with a journal, a failed step would look like one that can go on.
                self._dealer.journal.remove()
            self._close()
        except BaseException as error:  # noqa: BLE001 - the main thread raises it
            self.error = error
            self._dealer.fail(f"the dealer failed: {type(error).__name__}: {error}")
            for node in list(self._nodes):
                node.socket.close()

    def _turn(self, timeout_s: float) -> None:
        for key, events in self._selector.select(timeout_s):
            if key.data is None:
                self._accept(key.fileobj)
            else:
                self._serve(key.data, events)

    def _accept(self, listener: Any) -> None:
        try:
            connection, _ = listener.accept()
        except OSError:
            return  # It went away again.
        connection.settimeout(0)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        node = NodeConnection(connection, messages.nonce())
        self._nodes.add(node)
        self._selector.register(connection, selectors.EVENT_READ, node)
        self._send(node, {"nonce": node.nonce})

    def _serve(self, node: NodeConnection, events: int) -> None:
        try:
            if events & selectors.EVENT_WRITE:
                self._flush(node)
            if events & selectors.EVENT_READ:
                data = node.socket.recv(1 << 20)
                if not data:
                    self._drop(node)
                    return
                for message in node.incoming.add(data):
                    self._take(node, message)
        except BlockingIOError:
            return
        except (OSError, KeyError, TypeError, ValueError) as error:
            if node.is_proven:
                print(f"parallel: connection of a node lost: {error}", file=sys.stderr)
            self._drop(node)

    def _take(self, node: NodeConnection, message: Message) -> None:
        if not node.is_proven:
            self._prove(node, message)
            return
        worker = int(message["worker"])
        match message["type"]:
            case "want":
                self._dealer.is_any_ready = True
                self._waiting.append((node, worker))
            case "ended":
                number = node.dealt.pop(worker)
                text, why = str(message["text"]), str(message["why"])
                self._end(number, Outcome(text, int(message["count"]), why, int(message["given"])))
            case "init failed":
                workers = sum(one.workers for one in self._nodes)
                self._dealer.init_failed(str(message["why"]), workers)
            case other:
                raise MessageError(f"a message of type {other!r}")
        self._deal()

    def _prove(self, node: NodeConnection, message: Message) -> None:
        theirs = str(message.get("nonce"))
        if not messages.is_proof(message.get("proof"), self._secret, "node", node.nonce, theirs):
            raise MessageError("a connection without the secret of the attempt")
        node.is_proven, node.incoming.max_bytes = True, messages.MAX_BYTES
        node.workers = int(message["workers"])
        self._send(node, {"proof": messages.proof(self._secret, "dealer", theirs, node.nonce)})
        if self._dealer.over:
            self._tell_end(node)

    def _deal(self) -> None:
        """Gives mini-batches to the workers that wait."""
        while self._waiting:
            node, worker = self._waiting[0]
            if node not in self._nodes:
                self._waiting.popleft()
                continue
            number = self._dealer.next()
            if number is None:
                return
            self._waiting.popleft()
            node.dealt[worker] = number
            batch = self._batches[number]
            self._send(node, {
                "type": "batch", "worker": worker, "number": number, "files": batch.files, "key": dict(batch.key),
                "rows": asdict(batch.rows) if batch.rows else {}, "try": self._dealer.tries[number],
            })  # fmt: skip

    def _end(self, number: int, outcome: Outcome) -> None:
        before = self._dealer.done
        self._dealer.ended(number, outcome)
        if self._dealer.done > before:
            self._progress_at = time.monotonic()
        if outcome.why:
            self._failures_shown += 1
            if self._failures_shown <= _MAX_FAILURES_SHOWN:
                print(f"parallel: mini-batch {number}, try {self._dealer.tries[number]}: {outcome.why}", flush=True)

    def _drop(self, node: NodeConnection) -> None:
        """A connection has ended: the mini-batches of its workers go back."""
        if node not in self._nodes:
            return
        self._nodes.remove(node)
        if node.is_proven and not node.is_told:
            self._missing_nodes -= 1
        self._selector.unregister(node.socket)
        node.socket.close()
        for number in node.dealt.values():
            self._dealer.put_back(number)
        self._deal()

    def _send(self, node: NodeConnection, message: Message) -> None:
        node.outgoing += messages.packed(message)
        self._flush(node)

    def _flush(self, node: NodeConnection) -> None:
        try:
            while node.outgoing:
                del node.outgoing[: node.socket.send(node.outgoing)]
        except BlockingIOError:
            pass
        except OSError:
            self._drop(node)
            return
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if node.outgoing else 0)
        self._selector.modify(node.socket, events, node)

    def _close(self) -> None:
        """Tells all nodes that the step has ended, those that connect later, too."""
        for node in [one for one in self._nodes if one.is_proven]:
            self._tell_end(node)
        until = time.monotonic() + _CLOSING_TIMEOUT_S
        while (self._missing_nodes > 0 or any(node.outgoing for node in self._nodes)) and time.monotonic() < until:
            self._turn(0.1)
        for node in list(self._nodes):
            self._drop(node)

    def _tell_end(self, node: NodeConnection) -> None:
        self._missing_nodes -= 1
        node.is_told = True
        self._send(node, {"type": "over", "why": "" if self._dealer.over == DONE else self._dealer.over})

    # --- the clock ------------------------------------------------------------------------------------------------
    def _look_at_clock(self) -> None:
        now, settings = time.monotonic(), self._settings
        for node in [one for one in self._nodes if not one.is_proven]:
            if now - node.since > messages.PROOF_TIMEOUT_S:
                self._drop(node)
        if not self._dealer.is_any_ready and now - self._began_at > settings.first_task_creation_timeout_s:
            limit = f"{settings.first_task_creation_timeout_s:g} s (--first_task_creation_timeout)"
            self._dealer.fail(f"init() has ended in no worker within {limit}")
        if 0 < settings.progress_update_timeout_s < now - self._progress_at:
            limit = f"{settings.progress_update_timeout_s:g} s (--progress_update_timeout)"
            self._dealer.fail(f"no mini-batch has ended within {limit}")
        self._report()

    def _report(self, *, is_last: bool = False) -> None:
        now = time.monotonic()
        text, said_at = self._reported
        summary = self._dealer.summary()
        wait = _REPORT_INTERVAL_S if summary != text else _SILENCE_S
        if is_last or now - said_at > wait:
            self._reported = (summary, now)
            print(f"parallel: {summary}", flush=True)


def _listener(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        if error.errno != errno.EADDRNOTAVAIL:
            raise
        # The others reach this node by an address that isn't its own, such as a container's.
        return socket.create_server(("", port))

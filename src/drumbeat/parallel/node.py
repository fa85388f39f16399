"""The runner of one node: starts its workers, passes mini-batches to them, ends those that take too long."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, field
from typing import Any

from drumbeat.parallel import messages
from drumbeat.parallel.messages import BlockingChannel, Message, MessageError, MessageParser
from drumbeat.parallel.settings import ParallelSettings, worker_count, worker_gpus

WORKER_CHANNEL = "DRUMBEAT_PARALLEL_CHANNEL"
WORKER_SETTINGS = "DRUMBEAT_PARALLEL_SETTINGS"
WORKER_NUMBER = "DRUMBEAT_PARALLEL_WORKER"
_CONNECT_TIMEOUT_S = 120.0
_SHUTDOWN_TIMEOUT_S = 30.0
_INIT_TRIES = 3
"""A node starts no more workers when `init` has failed so many times for each of them."""


@dataclass(eq=False)
class Worker:
    """A worker process."""

    number: int
    process: subprocess.Popen[bytes]
    channel: socket.socket
    incoming: MessageParser = field(default_factory=MessageParser)
    is_ready: bool = False
    has_batch: bool = False
    deadline: float = 0.0
    """When its mini-batch has taken too long."""
    is_late: bool = False


class Node:
    """Runs the workers of one node until the dealer says that the step has ended."""

    def __init__(self, settings: ParallelSettings, address: tuple[str, int], secret: str, environment: str) -> None:
        self._settings, self._address, self._secret = settings, address, secret
        self._worker_settings = environment
        self._count = worker_count(settings, os.environ)
        self._selector = selectors.DefaultSelector()
        self._workers: dict[int, Worker] = {}
        self._init_failures = 0
        self._dealer: BlockingChannel | None = None
        self._over: str | None = None

    def run(self) -> None:
        """Runs until the end of the step. Raises ConnectionError where the dealer is lost."""
        channel = self._dealer = _connected(self._address, self._secret, self._count)
        self._selector.register(channel.socket, selectors.EVENT_READ, None)
        try:
            self._follow_dealer(channel)
            for number in range(self._count) if self._over is None else ():
                self._start(number)
            while self._over is None:
                self._turn()
        finally:
            self._end_workers()
            channel.socket.close()

    def _turn(self) -> None:
        for key, _ in self._selector.select(self._patience()):
            if key.data is None:
                self._hear_dealer()
            elif key.data.number in self._workers:
                self._hear_worker(key.data)
        now = time.monotonic()
        for worker in list(self._workers.values()):
            if worker.has_batch and not worker.is_late and now > worker.deadline:
                worker.is_late = True
                worker.process.kill()  # run() may hang in C: no signal that Python handles would end it.

    def _patience(self) -> float:
        deadlines = [one.deadline for one in self._workers.values() if one.has_batch and not one.is_late]
        return max(0.0, min([1.0, *(deadline - time.monotonic() for deadline in deadlines)]))

    # --- the dealer -----------------------------------------------------------------------------------------------
    def _hear_dealer(self) -> None:
        assert self._dealer is not None  # noqa: S101 - `run` has connected
        if not self._dealer.read():
            raise ConnectionResetError("connection reset by peer: the runner of node 0, which deals, has ended")
        self._follow_dealer(self._dealer)

    def _follow_dealer(self, channel: BlockingChannel) -> None:
        for message in channel.taken():
            if message["type"] == "over":
                self._over = str(message["why"])
            else:
                self._give(message)

    def _give(self, message: Message) -> None:
        worker = self._workers[int(message["worker"])]
        worker.has_batch = True
        worker.deadline = time.monotonic() + self._settings.timeout_s
        with contextlib.suppress(OSError):  # It has just died: that is seen at its channel.
            worker.channel.sendall(messages.packed(message))

    def _tell(self, kind: str, worker: Worker, **more: Any) -> None:
        assert self._dealer is not None  # noqa: S101 - `run` has connected
        self._dealer.send({"type": kind, "worker": worker.number, **more})

    # --- the workers ----------------------------------------------------------------------------------------------
    def _start(self, number: int) -> None:
        ours, theirs = socket.socketpair()
        variables = {key: value for key, value in os.environ.items() if key != messages.SECRET}
        variables |= {
            WORKER_CHANNEL: str(theirs.fileno()),
            WORKER_SETTINGS: self._worker_settings,
            WORKER_NUMBER: str(number),
        }
        gpus = worker_gpus(number, self._count, os.environ)
        if gpus is not None:
            variables["CUDA_VISIBLE_DEVICES"] = gpus
        process = subprocess.Popen(
            [sys.executable, "-m", "drumbeat.parallel.worker"], env=variables, pass_fds=[theirs.fileno()]
        )
        theirs.close()
        worker = self._workers[number] = Worker(number, process, ours)
        self._selector.register(ours, selectors.EVENT_READ, worker)

    def _hear_worker(self, worker: Worker) -> None:
        try:
            data = worker.channel.recv(1 << 20)
            if data:
                for message in worker.incoming.add(data):
                    self._take(worker, message)
                return
        except MessageError as error:
            self._lose(worker, f"it returned {error}")
            return
        except OSError:
            pass
        self._lose(worker, "")

    def _take(self, worker: Worker, message: Message) -> None:
        match message["type"]:
            case "ready":
                worker.is_ready = True
                self._tell("want", worker)
            case "init failed":
                worker.is_ready = True  # Its end is no further failure.
                self._fail_init(worker, str(message["why"]))
            case "ended":
                worker.has_batch = False
                ended = {key: message[key] for key in ("text", "count", "given", "why")}
                self._tell("ended", worker, **ended)
                self._tell("want", worker)
            case other:
                raise MessageError(f"a message of type {other!r}")

    def _fail_init(self, worker: Worker, why: str) -> None:
        self._init_failures += 1
        self._tell("init failed", worker, why=why)

    def _lose(self, worker: Worker, why: str) -> None:
        """A worker has ended, or can't be understood: its mini-batch has failed, and another worker takes its place."""
        worker.process.kill()
        code = worker.process.wait()
        self._selector.unregister(worker.channel)
        worker.channel.close()
        del self._workers[worker.number]
        if worker.is_late:
            why = f"run() took longer than {self._settings.timeout_s:g} s (retry_settings.timeout)"
        why = why or _ending(code)
        if worker.has_batch:
            self._tell("ended", worker, text="", count=0, given=-1, why=why)
        elif not worker.is_ready:
            self._fail_init(worker, why)
        if self._init_failures < _INIT_TRIES * self._count:
            self._start(worker.number)
        elif not self._workers:
            print("parallel: init() has failed too often on this node: it starts no more workers", file=sys.stderr)

    def _end_workers(self) -> None:
        """Lets workers that wait call `shutdown()`; ends those that run."""
        for worker in self._workers.values():
            if worker.has_batch or not worker.is_ready:
                worker.process.kill()
            else:
                with contextlib.suppress(OSError):
                    worker.channel.shutdown(socket.SHUT_WR)
        until = time.monotonic() + _SHUTDOWN_TIMEOUT_S
        for worker in self._workers.values():
            try:
                worker.process.wait(max(0.0, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                print(f"parallel: shutdown() took longer than {_SHUTDOWN_TIMEOUT_S:g} s", file=sys.stderr)
                worker.process.kill()
                worker.process.wait()
            worker.channel.close()


def _ending(code: int) -> str:
    if code < 0:
        name = signal.Signals(-code).name
        more = ", as where memory is short" if -code == signal.SIGKILL else ""
        return f"the worker process was ended by {name}{more}"
    return f"the worker process ended with exit code {code}"


def _connected(address: tuple[str, int], secret: str, workers: int) -> BlockingChannel:
    """Connects to the dealer, which may start later than this node. Raises ConnectionError."""
    until = time.monotonic() + _CONNECT_TIMEOUT_S
    while True:
        try:
            connection = socket.create_connection(address, timeout=10)
            break
        except OSError as error:
            if time.monotonic() > until:
                raise ConnectionError(f"the runner of node 0 at {address[0]}:{address[1]}: {error}") from error
            time.sleep(0.2)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    channel = BlockingChannel(connection)
    hello, ours = channel.receive() or {}, messages.nonce()
    theirs = str(hello.get("nonce"))
    channel.send({"nonce": ours, "proof": messages.proof(secret, "node", theirs, ours), "workers": workers})
    answer = channel.receive() or {}
    if not messages.is_proof(answer.get("proof"), secret, "dealer", ours, theirs):
        raise ConnectionError(f"{address[0]}:{address[1]} doesn't know the secret of this attempt")
    connection.settimeout(None)
    return channel

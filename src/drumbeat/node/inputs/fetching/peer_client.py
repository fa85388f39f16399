"""Fetches from the node before this one in the gang, which has the same inputs, before the store is asked.

Pieces of large files come one by one, small files many at a time. Each request proves knowledge of the attempt's secret
without showing it, and so does each answer, with its bytes.
"""

from __future__ import annotations

import hmac
import http.client
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from drumbeat.model import small_file_bundles
from drumbeat.model.errors import DrumbeatError, UnreachableError
from drumbeat.node.inputs.fetching.http_client import FetchTimeouts, Lines, Refusal, closing

T = TypeVar("T")

PROGRESS, PROOF = "Drumbeat-Progress", "Drumbeat-Proof"
_LOOK_S, _GONE_S, _PROBE_S, _POLL_S = 0.3, 3.0, 2.0, 0.1


def ask_proof(secret: str, name: str, offset: int, length: int) -> str:
    """Returns the proof that a request for a piece carries."""
    return hmac.digest(secret.encode(), f"piece\0{name}\0{offset}\0{length}".encode(), "sha256").hex()


def files_proof(secret: str, body: bytes) -> str:
    """Returns the proof that a request for complete files carries."""
    return hmac.digest(secret.encode(), b"files\0" + body, "sha256").hex()


def answer_proof(secret: str, asked: str, body: bytes) -> str:
    """Returns the header of the answer, which proves that no byte was changed on the way."""
    made = hmac.new(secret.encode(), f"answer\0{asked}\0".encode(), "sha256")
    made.update(body)
    return made.hexdigest()


def before(node: int, cache: str, peers: Sequence[Mapping[str, Any] | None]) -> tuple[str, bool]:
    """Returns the address `host:port` of the nearest node before this one with another cache, "" = unknown, and whether
    it may still come.
    """
    for peer in reversed(peers[:node]):
        if peer is None or not peer.get("data_port"):
            return "", True
        if peer.get("cache") != cache:
            address = str(peer["address"])
            return f"[{address}]:{peer['data_port']}" if ":" in address else f"{address}:{peer['data_port']}", False
    return "", False


@dataclass(frozen=True)
class PeerIdentity:
    """What identifies this node to another one."""

    node: int
    cache: str
    """Names its folder of data."""
    secret: str
    """Shared by the nodes of the attempt."""


class PeerClient:
    """Fetches from the node before this one. peers: what the server knows of the nodes. Thread-safe."""

    def __init__(
        self, identity: PeerIdentity, peers: Callable[[], Sequence[Mapping[str, Any] | None]], timeouts: FetchTimeouts
    ) -> None:
        self._identity, self._peers = identity, peers
        self._silent_s = timeouts.silent_s * (1 + identity.node / 4)  # The node nearest to the store asks it first.
        self._lock = threading.Lock()
        self._where, self._may_come = "", True
        self._look_at = self._probe_at = 0.0
        self._progress: str = ""
        self._moved_at = time.monotonic()
        self._is_off = False
        self.came = 0
        """Bytes from there."""

    def get(self, lines: Lines, name: str, span: tuple[int, int], is_over: Callable[[], bool]) -> bytes | None:
        """Fetches a piece; None = ask the store. Waits while the node before makes progress."""
        return self._when_there(lambda where: self._piece(lines, where, name, span), is_over)

    def files(self, lines: Lines, sizes: Mapping[str, int], is_over: Callable[[], bool]) -> dict[str, bytes]:
        """Fetches those of the files (name to bytes) that the node before has, at least one; none = ask the store.

        Waits while the node before makes progress.
        """
        if not sizes:
            return {}
        return self._when_there(lambda where: self._files(lines, where, sizes), is_over) or {}

    def _when_there(self, ask: Callable[[str], T | None], is_over: Callable[[], bool]) -> T | None:
        """Polls `ask` with the node's address until it returns a value; None = it isn't worth waiting for."""
        while not is_over() and not self._is_off:
            where = self._look()
            if not where:
                if not self._may_come or self._is_silent():
                    return None
                time.sleep(_POLL_S)
                continue
            if self._is_silent() and not self._may_probe():
                return None
            try:
                if (answer := ask(where)) is not None:
                    return answer
            except (UnreachableError, Refusal):
                self._gone()
                return None
        return None

    def _is_silent(self) -> bool:
        return time.monotonic() - self._moved_at > self._silent_s

    def _may_probe(self) -> bool:
        with self._lock:
            is_due = time.monotonic() >= self._probe_at
            if is_due:
                self._probe_at = time.monotonic() + _PROBE_S
            return is_due

    def _gone(self) -> None:
        with self._lock:
            self._where, self._look_at = "", time.monotonic() + _GONE_S
            self._may_come = False

    def _look(self) -> str:
        """Returns the address of the node before; while it is unknown, asks the server now and then."""
        with self._lock:
            if self._where or time.monotonic() < self._look_at:
                return self._where
            self._look_at = time.monotonic() + _LOOK_S
            try:
                self._where, self._may_come = before(self._identity.node, self._identity.cache, self._peers())
            except DrumbeatError:
                return ""
            self._is_off = not self._where and not self._may_come
            return self._where

    def _piece(self, lines: Lines, where: str, name: str, span: tuple[int, int]) -> bytes | None:
        """Returns the piece; None = not yet. Raises UnreachableError, Refusal."""
        offset, length = span
        proof = ask_proof(self._identity.secret, name, offset, length)
        data = self._ask(lines, f"http://{where}/{name}/{offset}/{length}", proof, None, length)
        if data is not None:
            self._came(f"{name}/{offset}", len(data))
        return data

    def _files(self, lines: Lines, where: str, sizes: Mapping[str, int]) -> dict[str, bytes] | None:
        """Returns the files that the peer has; None = none yet. Raises UnreachableError, Refusal."""
        asked = small_file_bundles.request(sizes)
        proof = files_proof(self._identity.secret, asked)
        body = self._ask(lines, f"http://{where}/files", proof, asked, len(sizes) + sum(sizes.values()))
        if body is None:
            return None
        try:
            files = small_file_bundles.opened(sizes, body)
        except ValueError:
            raise Refusal(0) from None
        self._came("/".join(files), len(body))
        return files

    def _ask(self, lines: Lines, url: str, proof: str, asked: bytes | None, most: int) -> bytes | None:
        answer = lines.get(url, {"Authorization": f"Proof {proof}"}, asked)
        with closing(lines, url, answer):
            body = read_body(answer, most)
            if answer.status == 202:
                self._heard(answer.headers.get(PROGRESS, ""))
                return None
            if answer.status != 200:
                raise Refusal(answer.status)
            if not hmac.compare_digest(answer_proof(self._identity.secret, proof, body), answer.headers.get(PROOF, "")):
                self._is_off = True  # Another program answers there, or the answer was changed.
                raise Refusal(0)
        return body

    def _came(self, progress: str, size: int) -> None:
        self._heard(progress)
        with self._lock:
            self.came += size

    def _heard(self, progress: str) -> None:
        with self._lock:
            if progress != self._progress:
                self._progress, self._moved_at = progress, time.monotonic()


def read_body(answer: http.client.HTTPResponse, most: int) -> bytes:
    """Reads an answer of at most so many bytes. Raises UnreachableError if it ends too early."""
    try:
        body = answer.read(most)
    except (OSError, http.client.HTTPException) as error:
        raise UnreachableError(f"the node before this one broke off: {error}") from error
    if len(body) < most and answer.length:  # A read of at most so many bytes doesn't raise where a connection ends.
        raise UnreachableError(f"the node before this one broke off: {answer.length} bytes too early")
    return body

"""Who makes which environment. In memory: after a restart of the server, the node that makes one says so again."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from drumbeat.model.environment_manifest import LEASE_S


@dataclass(frozen=True)
class NodeName:
    """A node of an attempt."""

    job: str
    attempt: int
    node: int

    def __str__(self) -> str:
        return f"node {self.node} of {self.job}"

    def is_beside(self, other: NodeName) -> bool:
        """Whether they are nodes of the same attempt."""
        return (self.job, self.attempt) == (other.job, other.attempt)


@dataclass(frozen=True)
class MakerLease:
    """A node makes an environment, and then sends it. digest: of the manifest that it sent, "" = it isn't that far."""

    holder: NodeName
    renewed_at: float
    progress: str = ""
    digest: str = ""


class Leases:
    """The leases, by a key of the environment. Thread-safe. now: monotonic seconds."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._leases: dict[str, MakerLease] = {}
        self._lock = threading.Lock()

    def take(self, key: str, node: NodeName, progress: str, *, has_it: bool = False) -> MakerLease:
        """Gives the node the lease, or renews it, unless another one has it; returns the one that counts.

        has_it: whether the node has the environment, and only hands it on: it comes before one that hasn't begun.
        """
        with self._lock:
            lease = self._valid(key)
            if lease is None or (has_it and not lease.progress and not lease.digest):
                lease = MakerLease(node, self._now())
            if lease.holder == node:
                lease = replace(lease, renewed_at=self._now(), progress=progress)
            self._leases[key] = lease
            return lease

    def find(self, key: str) -> MakerLease | None:
        """The lease that counts."""
        with self._lock:
            return self._valid(key)

    def offer(self, key: str, node: NodeName, digest: str) -> bool:
        """Records that the node has made it; False = the lease is another's by now."""
        with self._lock:
            lease = self._valid(key) or MakerLease(node, self._now())
            if lease.holder != node:
                return False
            self._leases[key] = replace(lease, renewed_at=self._now(), digest=digest)
            return True

    def end(self, key: str, node: NodeName) -> None:
        """Ends the node's lease, if it has it."""
        with self._lock:
            lease = self._leases.get(key)
            if lease is not None and lease.holder == node:
                del self._leases[key]

    def _valid(self, key: str) -> MakerLease | None:
        now = self._now()
        for old in [each for each, one in self._leases.items() if now - one.renewed_at > LEASE_S]:
            del self._leases[old]
        return self._leases.get(key)

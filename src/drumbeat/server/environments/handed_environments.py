"""Environments that one node makes and the others of its platform take over: who makes it, and what the server keeps.

Code that one user's job has installed runs in the jobs that take it over, so an environment is handed on among the
jobs of one user alone.
"""

from __future__ import annotations

import hashlib
import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from drumbeat.core.lifecycle.job import Job
from drumbeat.model.environment_manifest import MADE, MAKE, WAIT, EnvironmentAnswer
from drumbeat.model.errors import DrumbeatError, ForbiddenError, NotFoundError, StaleError, UnreachableError
from drumbeat.server.environments.leases import Leases, NodeName
from drumbeat.server.home_folder.environment_store import EnvironmentStore, unpacked

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class MakerState:
    """What a node says when it asks. progress: how far it is in making the environment. rejected: the digest of a
    manifest whose files it couldn't use. has_it: it has the environment, and could hand it on.
    """

    progress: str = ""
    rejected: str = ""
    has_it: bool = False


NEEDS = MakerState()
_REMEMBERED = 16
"""Manifests whose contents are in memory."""
BEING_SENT = "inputs.environment"
"""Where an error is, for which nodes don't wait without a limit (`FetchTimeouts`)."""


class HandedEnvironments:
    """The environments of all jobs. Thread-safe."""

    def __init__(self, store: EnvironmentStore, now: Callable[[], float] = time.monotonic) -> None:
        self._store = store
        self._leases = Leases(now)
        self._contents: OrderedDict[str, Mapping[str, int]] = OrderedDict()
        self._lock = threading.Lock()

    def ask(self, job: Job, node: NodeName, key: str, state: MakerState = NEEDS) -> EnvironmentAnswer:
        """What a node that needs an environment does now. It asks again every few seconds while it waits or makes it.

        Raises ForbiddenError for a key that isn't of the job's environment.
        """
        rejected = state.rejected
        _require_own(job, key)
        name = f"{job.user}\0{key}"
        lease = self._leases.find(name)
        is_beside = lease is not None and lease.holder != node and node.is_beside(lease.holder)
        packed = self._store.manifest(job.user, key)
        digest = _digest(packed) if packed else ""
        if packed and digest == rejected:
            self._reject(job, key, packed)
        elif packed:
            self._store.touch(job.user, key)
            holder = lease.holder.node if lease and is_beside and lease.digest == digest else -1
            return EnvironmentAnswer(MADE, digest=digest, holder=holder)
        if lease and is_beside and lease.digest not in ("", rejected):
            return EnvironmentAnswer(MADE, str(lease.holder), digest=lease.digest, holder=lease.holder.node)
        lease = self._leases.take(name, node, state.progress, has_it=state.has_it)
        if lease.holder == node:
            return EnvironmentAnswer(MAKE)
        return EnvironmentAnswer(WAIT, str(lease.holder), lease.progress)

    def offer(self, job: Job, node: NodeName, key: str, packed: bytes) -> list[str]:
        """Takes the manifest of what a node has made; returns the contents that the node has to send.

        Nodes of the same attempt may have it from that node at once. Raises StaleError when another node makes it by
        now.
        """
        _require_own(job, key)
        contents = unpacked(packed).contents
        if not self._leases.offer(f"{job.user}\0{key}", node, _digest(packed)):
            raise StaleError("another node makes this environment", where=key)
        self._store.put_manifest(job.user, key, packed)
        return self._store.missing(contents)

    def manifest(self, job: Job, key: str, digest: str) -> bytes:
        """The packed manifest of that digest. Raises NotFoundError."""
        _require_own(job, key)
        for is_sent in (False, True):
            packed = self._store.manifest(job.user, key, is_sent=is_sent)
            if packed and _digest(packed) == digest:
                return packed
        raise NotFoundError("the environment was replaced", where=key)

    def commit(self, job: Job, key: str) -> list[str]:
        """Vouches for what a node has sent; returns the contents that are missing, none = it is done."""
        missing = self._store.missing(self._contents_of(job, key))
        if not missing:
            self._store.complete(job.user, key)
            for place in self._store.collect(time.time()):
                log.info("the environment %s is no longer kept for other nodes", place.name)
        return missing

    def give_up(self, job: Job, node: NodeName, key: str) -> None:
        """The node makes it no more."""
        self._leases.end(f"{job.user}\0{key}", node)

    # --- contents -----------------------------------------------------------------------------------------------------
    def add(self, job: Job, key: str, contents: Mapping[str, bytes]) -> None:
        """Keeps small contents of a manifest that was offered."""
        sizes = self._contents_of(job, key)
        for digest in contents:
            _size(sizes, digest)
        self._store.add(contents)

    def append(self, job: Job, key: str, digest: str, offset: int, data: bytes) -> int:
        """Adds to a large content; returns how much of it is there."""
        return self._store.append(digest, _size(self._contents_of(job, key), digest), offset, data)

    def read(self, job: Job, key: str, digest: str, offset: int, length: int) -> bytes:
        """Bytes of a content. Raises UnreachableError while they are being sent, NotFoundError."""
        _size(self._contents_of(job, key), digest)
        try:
            return self._store.read(digest, offset, length)
        except NotFoundError:
            lease = self._leases.find(f"{job.user}\0{key}")
            if lease is None or not lease.digest:
                raise
            raise UnreachableError(f"{lease.holder} is still sending it", where=BEING_SENT) from None

    def read_some(self, job: Job, key: str, sizes: Mapping[str, int]) -> dict[str, bytes]:
        """Those of some small contents that are there."""
        contents, data_by_digest = self._contents_of(job, key), dict[str, bytes]()
        for digest, wanted in sizes.items():
            size = _size(contents, digest)
            try:
                data = self._store.read(digest, 0, size)
            except DrumbeatError:
                continue
            if len(data) == size == wanted:
                data_by_digest[digest] = data
        return data_by_digest

    def _contents_of(self, job: Job, key: str) -> Mapping[str, int]:
        """The sizes of the contents of the manifest that is being sent, and of the one that is complete."""
        _require_own(job, key)
        sizes: dict[str, int] = {}
        for is_sent in (False, True):
            packed = self._store.manifest(job.user, key, is_sent=is_sent)
            sizes |= self._unpacked(packed) if packed else {}
        return sizes

    def _unpacked(self, packed: bytes) -> Mapping[str, int]:
        digest = _digest(packed)
        with self._lock:
            if digest in self._contents:
                self._contents.move_to_end(digest)
                return self._contents[digest]
        contents = unpacked(packed).contents
        with self._lock:
            self._contents[digest] = contents
            while len(self._contents) > _REMEMBERED:
                self._contents.popitem(last=False)
        return contents

    def _reject(self, job: Job, key: str, packed: bytes) -> None:
        """Looks at files that a node couldn't use, and forgets the environment if they aren't all there."""
        contents = self._unpacked(packed)
        self._store.remove_wrong(contents)
        if self._store.missing(contents):
            self._store.remove_manifest(job.user, key)


def _size(contents: Mapping[str, int], digest: str) -> int:
    size = contents.get(digest)
    if size is None:
        raise ForbiddenError("this content isn't of the environment", where=ascii(digest[:80])[1:-1])
    return size


def _digest(packed: bytes) -> str:
    return hashlib.sha256(packed).hexdigest()


def _require_own(job: Job, key: str) -> None:
    """Raises ForbiddenError unless the key is of the job's environment (`Builder.key`)."""
    wanted = job.plan.python
    start = "".join(letter for letter in wanted.key[:12] if letter.isascii() and letter.isalnum()) if wanted else ""
    if wanted is None or key.rpartition("-")[0] != (start or "environment"):
        raise ForbiddenError("this isn't the job's environment", where=ascii(key[:80])[1:-1])

"""The contents of an environment: fetched from the nodes of the gang that have them, else from the server."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from drumbeat.model.agent import Enrolment
from drumbeat.model.environment_manifest import EnvironmentManifest
from drumbeat.model.errors import DrumbeatError, StorageError
from drumbeat.model.failpoints import failpoint
from drumbeat.model.input_listing import ListedFile
from drumbeat.node.inputs.cache.eviction import CacheSpace
from drumbeat.node.inputs.cache.files import Files
from drumbeat.node.inputs.fetching.fetch_context import Means
from drumbeat.node.inputs.fetching.fetch_threads import Fetch
from drumbeat.node.inputs.fetching.http_client import FetchTimeouts, Lines
from drumbeat.node.inputs.fetching.piece_queue import Want
from drumbeat.node.inputs.fetching.progress import Meter
from drumbeat.node.inputs.handed import own_environments
from drumbeat.node.inputs.handed.environment_link import EnvironmentLink

if TYPE_CHECKING:
    from drumbeat.node.inputs.fetching.peer_client import PeerClient
    from drumbeat.node.inputs.fetching.peer_server import DataServer

_GIVE_UP_S = 60.0
"""How long no byte may come, before the node makes the environment itself."""
_PIN = "handed-environment"


@dataclass(frozen=True)
class ContentSources:
    """Where contents come from. serving: passes on what came, None = the node is alone."""

    enrolment: Enrolment
    key: str
    serving: DataServer | None


@dataclass(frozen=True)
class Fetched:
    """Contents that are in the cache, where they stay until `release` is called. size: bytes that came for them."""

    files: Files
    size: int
    release: Callable[[], None]


class NodesThenServer:
    """Asked for pieces and for small contents, many at a time, before the server is asked for each alone."""

    def __init__(self, peers: PeerClient | None, new_link: Callable[[], EnvironmentLink]) -> None:
        self._peers, self._new_link = peers, new_link
        self._own = threading.local()

    def get(self, lines: Lines, name: str, span: tuple[int, int], is_over: Callable[[], bool]) -> bytes | None:
        """A piece from another node."""
        return self._peers.get(lines, name, span, is_over) if self._peers else None

    def files(self, lines: Lines, sizes: Mapping[str, int], is_over: Callable[[], bool]) -> dict[str, bytes]:
        """Those of the small contents that another node has, or the server."""
        came = self._peers.files(lines, sizes, is_over) if self._peers and sizes else {}
        if came or not sizes or is_over():
            return came
        try:
            return self._link().some(sizes)
        except DrumbeatError:
            return {}

    def _link(self) -> EnvironmentLink:
        if not hasattr(self._own, "link"):
            self._own.link = self._new_link()
        return self._own.link


def fetch(
    sources: ContentSources, manifest: EnvironmentManifest, holder: int, name: str, progress: Callable[[str], None]
) -> Fetched:
    """Brings all contents into the cache.

    holder: the node of the attempt that has them all, -1 = none. Raises DrumbeatError, OSError.
    """
    from drumbeat.node.platform import cache_folders

    files = Files(cache_folders.data_folder())
    contents = {digest: size for digest, size in manifest.contents.items() if size}
    listed = [ListedFile(digest, size, digest, digest) for digest, size in contents.items()]
    pin = os.path.join(sources.enrolment.root, _PIN)
    os.makedirs(pin, mode=0o700, exist_ok=True)

    def release() -> None:
        shutil.rmtree(pin, ignore_errors=True)

    try:
        room = CacheSpace(files)
        if why := room.take(sources.enrolment.job, pin, listed):
            raise StorageError(why, where=files.folder)
        if sources.serving is not None:
            sources.serving.add(contents)
        missing = [file for file in listed if file.key in room.missing]
        if missing:
            own_environments.copy_from(files, missing)
            missing = [file for file in missing if not files.has(file.key, file.size)]
        came = _fetch(sources, files, missing, holder, name, progress) if missing else 0
        failpoint("environment.fetched")
    except BaseException:
        release()
        raise
    return Fetched(files, came, release)


def _fetch(  # noqa: PLR0913 (parts of one fetch)
    sources: ContentSources,
    files: Files,
    missing: Sequence[ListedFile],
    holder: int,
    name: str,
    progress: Callable[[str], None],
) -> int:
    """Returns the bytes that came."""

    def new_link() -> EnvironmentLink:
        return EnvironmentLink(sources.enrolment, sources.key)

    timeouts = FetchTimeouts(give_up_s=_GIVE_UP_S)
    meter = Meter(f"environment {name}", sum(file.size for file in missing), progress)
    if sources.serving is not None:
        sources.serving.add((), lambda: meter.came)
    chain = NodesThenServer(_peers(sources, files, holder, timeouts, new_link), new_link)
    Fetch(Means(files, new_link, meter, timeouts, chain), [Want(f"environment {name}", file) for file in missing]).run()
    return meter.came


def _peers(
    sources: ContentSources, files: Files, holder: int, timeouts: FetchTimeouts, new_link: Callable[[], EnvironmentLink]
) -> PeerClient | None:
    """The node before this one, in an order that begins with the one that has everything."""
    enrolment = sources.enrolment
    if sources.serving is None or (holder < 0 and not enrolment.node):
        return None
    from drumbeat.node.inputs.fetching.peer_client import PeerClient, PeerIdentity
    from drumbeat.node.inputs.fetching.peer_server import cache_name

    first, link = max(0, holder), new_link()
    own = PeerIdentity((enrolment.node - first) % enrolment.plan.nodes, cache_name(files), enrolment.shared_secret)

    def peers() -> Sequence[Mapping[str, Any] | None]:
        all_nodes = link.peers()
        return [*all_nodes[first:], *all_nodes[:first]]

    return PeerClient(own, peers, timeouts)

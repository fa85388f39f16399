"""What all threads of a fetch share, and how they handle errors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from drumbeat.model.errors import StorageError, UnreachableError
from drumbeat.node.inputs.cache.files import Files
from drumbeat.node.inputs.fetching.http_client import FetchTimeouts, is_for_good
from drumbeat.node.inputs.fetching.progress import Meter

if TYPE_CHECKING:
    from drumbeat.node.inputs.fetching.http_client import Lines
    from drumbeat.node.inputs.fetching.piece_queue import Want
    from drumbeat.node.platform.request_backoff import Backoff
    from drumbeat.node.platform.server_link import ServerLink

_MAX_WRONG = 4


class Chain(Protocol):
    """What is asked before the store. For any thread."""

    def get(self, lines: Lines, name: str, span: tuple[int, int], is_over: Callable[[], bool]) -> bytes | None:
        """A piece; None = the store is to be asked."""
        ...

    def files(self, lines: Lines, sizes: Mapping[str, int], is_over: Callable[[], bool]) -> dict[str, bytes]:
        """Those of the files (name to bytes) that are there, one at least; none = the store is to be asked."""
        ...


@dataclass(frozen=True)
class Means:
    """The connections and limits of a fetch. server: connects a thread to the server. chain: the node before this one,
    None = there is none.
    """

    files: Files
    server: Callable[[], ServerLink]
    meter: Meter
    timeouts: FetchTimeouts
    chain: Chain | None = None

    def wait(self, error: UnreachableError | StorageError, backoff: Backoff) -> None:
        """Waits before a retry. error: of the server or the store, never of this node's own disk; it is raised if it is
        permanent or has lasted too long.
        """
        if is_for_good(error):
            raise error
        if self.timeouts.is_over(error, self.meter.moved_at):
            is_disk = isinstance(error, StorageError)
            fix = error.fix if is_disk else "See whether the nodes and the server reach it, and run the job again."
            limit_s = self.timeouts.limit_s(error)
            raise UnreachableError(f"{error.what}; no byte came for {limit_s:.0f} s", where=error.where, fix=fix)
        self.meter.trouble(error.what)
        backoff.wait()

    def came_wrong(self, want: Want, came: int) -> None:
        """Records that a file of so many bytes came with the wrong content. Raises StorageError when that lasts."""
        want.wrong += 1
        self.meter.again(came)
        if want.wrong >= _MAX_WRONG:
            what = f"input {want.input}: {want.file.path} came {want.wrong} times with other bytes than were listed"
            raise StorageError(what, where=f"inputs.{want.input}", fix="See who writes to it, and run the job again.")
        want.is_relayed = want.wrong > 1  # The server knows whether the file has been replaced.

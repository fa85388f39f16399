"""What the commands about sessions and services ask of a server."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from drumbeat.protocol.api.sessions import ServiceLinkView, SessionView


class SessionServer(Protocol):
    """A part of `Server`."""

    def start_session(
        self,
        job: str,
        argv: Sequence[str],
        *,
        rank: int | None = None,
        node: int | None = None,
        size: tuple[int, int] | None = None,
    ) -> SessionView:
        """Runs a command beside a rank. Raises RefusedError, ConflictError."""
        ...

    def session_output(self, job: str, session: str) -> AbstractContextManager[Iterator[bytes]]:
        """The session's frames as they come; leaving the block ends it."""
        ...

    def send_session_input(self, job: str, session: str, pieces: Iterable[bytes]) -> None:
        """Sends frames to a session; called in a thread of its own."""
        ...

    def service_link(self, job: str, service: str, node: int = 0) -> ServiceLinkView:
        """A link that opens a service in a browser, once."""
        ...

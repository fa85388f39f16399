"""The calls of `Client` about jobs that run or wait: sessions, services, what nodes tell, when jobs may start."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import httpx

from drumbeat.client.connection import Connection, api, checked, part, unreachable
from drumbeat.client.responses import view, views
from drumbeat.model.api.nodes import NodeProcesses
from drumbeat.model.api.outlooks import OutlookView, StartView
from drumbeat.model.api.sessions import ServiceLinkView, SessionView
from drumbeat.model.api.stacks import NodeStacks

_WITHOUT_END = httpx.Timeout(None, connect=5.0)


class RunningJobCalls:
    """A part of `Client`."""

    connection: Connection

    def outlook(self, job: str) -> OutlookView:
        """Returns when a job that waits may start and who holds the slots, or when one that runs ends.

        Raises NotFoundError, also where the server is older than this call.
        """
        return view(OutlookView, self.connection.call("GET", f"/jobs/{part(job)}/outlook"))

    def starts(self) -> list[StartView]:
        """Returns when each waiting job may start. Raises NotFoundError where the server is older than this call."""
        return views(StartView, self.connection.call("GET", "/starts"))

    def start_session(
        self,
        job: str,
        argv: Sequence[str],
        *,
        rank: int | None = None,
        node: int | None = None,
        size: tuple[int, int] | None = None,
    ) -> SessionView:
        """Runs a command beside a rank of a running job. It is ended when its output isn't read.

        size: rows and columns of its terminal; None = it gets none.

        Raises NotFoundError, RefusedError, ConflictError (the rank doesn't run).
        """
        body: dict[str, Any] = {"argv": [*argv], "rank": rank, "node": node}
        if size:
            body |= {"is_tty": True, "rows": size[0], "columns": size[1]}
        return view(SessionView, _once(self.connection, "POST", f"/jobs/{part(job)}/sessions", json=body).json())

    @contextmanager
    def session_output(self, job: str, session: str) -> Generator[Iterator[bytes]]:
        """The session's frames (`drumbeat.model.session_frames`) as they come; leaving the block ends it."""
        path = f"/jobs/{part(job)}/sessions/{part(session)}/output"
        try:
            with self.connection.streaming(path, timeout=_WITHOUT_END) as response:
                yield response.iter_raw()
        except httpx.TransportError as error:
            raise unreachable(error, self.connection.line.url) from error

    def send_session_input(self, job: str, session: str, pieces: Iterable[bytes]) -> None:
        """Sends frames to a session over a connection of its own, in any thread; returns when `pieces` has ended."""
        path = f"/jobs/{part(job)}/sessions/{part(session)}/input"
        line = self.connection.another()
        try:
            _once(line, "POST", path, content=iter(pieces), timeout=_WITHOUT_END)
        finally:
            line.close()

    def service_link(self, job: str, service: str, node: int = 0) -> ServiceLinkView:
        """A link that opens a service of a running job in a browser, once. Raises NotFoundError, ConflictError."""
        path = f"/jobs/{part(job)}/services/{part(service)}/links"
        return view(ServiceLinkView, self.connection.call("POST", path, params={"node": node}))

    def processes(self, job: str) -> list[NodeProcesses]:
        """Returns the processes of a running job, node by node. Raises NotFoundError.

        A node that doesn't answer has an `error`.
        """
        return views(NodeProcesses, self.connection.call("GET", f"/jobs/{part(job)}/processes"))

    def stacks(self, job: str, rank: int | None = None, *, native: bool = False) -> list[NodeStacks]:
        """Returns what each rank of a running job does now, with the stacks of its Python processes, node by node.

        native: native frames too; each rank stands still for a moment. Raises NotFoundError, and RefusedError for a
        rank that the job doesn't have. A node that doesn't answer has an `error`.
        """
        params = {**({} if rank is None else {"rank": rank}), **({"native": "true"} if native else {})}
        return views(NodeStacks, self.connection.call("GET", f"/jobs/{part(job)}/stacks", params=params))


def _once(line: Connection, method: str, path: str, **options: Any) -> httpx.Response:
    """Sends a request that must not be sent again by itself: a second one would run a command twice."""
    try:
        return checked(line.line.http.request(method, api(path), **options))
    except httpx.TransportError as error:
        raise unreachable(error, line.line.url) from error

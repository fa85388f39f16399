"""The metrics endpoint of a node: `python -I -m drumbeat.node.metrics.endpoint_process FOLDER SOCKET`.

It is a separate process so that ranks don't notice when their agent is killed. SOCKET is the number of an inherited
listening socket. On SIGUSR1 it goes on for the attempt whose folder is in `next.json`.
It ends on SIGINT, and by itself when neither agent nor supervisor of its attempt has lived for too
long.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
import time
from typing import TYPE_CHECKING, NoReturn

from drumbeat.model import wire
from drumbeat.model.agent import Enrolment
from drumbeat.model.failpoints import failpoint
from drumbeat.node.host import processes
from drumbeat.node.metrics.endpoint import MetricsEndpoint
from drumbeat.node.metrics.folder import MetricsFolder
from drumbeat.node.metrics.forwarder import Forwarder
from drumbeat.node.metrics.http_server import MetricsServer
from drumbeat.node.metrics.spool import Spool
from drumbeat.node.platform import locks
from drumbeat.node.platform.agent_log import Journal
from drumbeat.node.platform.server_link import ServerLink

if TYPE_CHECKING:
    from drumbeat.node.metrics.resources import ResourceSampler

LINK_TIMEOUT_S, READ_TIMEOUT_S = 30.0, 5.0
_QUICKEST_S, _SLOWEST_S = 0.05, 1.0
_CHECK_INTERVAL_S = 10.0
_LOCK_TRIES = 100


def pause_s(nodes: int) -> float:
    """Returns the seconds between two requests of a node, so that a server gets a few hundred a second from any job."""
    return min(max(_QUICKEST_S, nodes / 500), _SLOWEST_S)


def main() -> int:
    """Returns 0 after SIGINT, or if another process holds the folder."""
    folder = MetricsFolder(os.path.dirname(os.path.abspath(sys.argv[1])))
    if not _hold(folder):
        return 0
    # A scheduler signals every process of the node, and the ranks still write during their grace time.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGINT, _leave)
    threading.excepthook = _on_crash
    signal.signal(signal.SIGUSR1, _move_on)
    _show_identity(folder)  # Before anything is answered: a process without it is taken for dead.
    failpoint("metrics.begun")
    server = MetricsServer(socket.socket(fileno=int(sys.argv[2])))
    while True:
        enrolment = wire.from_wire(Enrolment, folder.read("enrolment"))
        service = AttemptMetrics(folder, enrolment)
        service.begin(server)
        try:
            _show_identity(folder)  # For an agent that waits until its job's requests are answered.
            _wait(enrolment)
        except HandoverError:
            service.end()
        else:
            return 0
        folder = MetricsFolder(folder.read("next")["root"])
        if not _hold(folder):
            return 0


def _show_identity(folder: MetricsFolder) -> None:
    pid = os.getpid()
    folder.write("state", {"pid": pid, "born": processes.birth(pid)})


class HandoverError(Exception):
    """Raised in the main thread: the agent has another job, and everything of this one has been sent."""


def _hold(folder: MetricsFolder) -> bool:
    for _ in range(_LOCK_TRIES):  # An agent's check holds the lock for an instant.
        if locks.take(folder.lock) is not None:
            return True
        time.sleep(0.01)
    return False


class AttemptMetrics:
    """Answers the requests of one attempt and forwards its records, in threads."""

    def __init__(self, folder: MetricsFolder, enrolment: Enrolment) -> None:
        self._folder, self._enrolment = folder, enrolment
        self._spool, journal = Spool(folder.spool), Journal(folder.log)
        link, pause = ServerLink(enrolment, LINK_TIMEOUT_S), pause_s(enrolment.plan.nodes)
        self._forwarder = Forwarder(self._spool, link, folder.sent, journal.note, pause)
        self._endpoint = MetricsEndpoint(
            enrolment, self._spool, self._forwarder, lambda: ServerLink(enrolment, READ_TIMEOUT_S)
        )
        self._sampler: ResourceSampler | None = None

    def begin(self, server: MetricsServer) -> None:
        """Begins to answer at the server's address."""
        self._forwarder.begin()
        server.serve(self._endpoint, self._folder.read("endpoint")["token"])
        if self._enrolment.plan.system_metrics:
            # Imported here because a rank waits for this process to answer; the first sample is due later.
            from drumbeat.node.metrics.resources import ResourceSampler

            self._sampler = ResourceSampler(self._endpoint, self._folder, self._enrolment)
            self._sampler.begin()

    def end(self) -> None:
        """Ends the threads."""
        self._spool.close()
        self._endpoint.end()
        if self._sampler:
            self._sampler.end()


def _wait(enrolment: Enrolment) -> None:
    """Returns when the attempt seems to be over: neither its agent nor its supervisor, which would end this process,
    lives.
    """
    alone_since = time.monotonic()
    while os.path.isdir(enrolment.root) and time.monotonic() - alone_since < enrolment.plan.lost_after_s + 60.0:
        time.sleep(_CHECK_INTERVAL_S)
        if any(locks.is_held(f"{enrolment.root}/{name}") for name in ("agent.lock", "keeper/keeper.lock")):
            alone_since = time.monotonic()


def _move_on(*_: object) -> NoReturn:
    raise HandoverError


def _leave(*_: object) -> NoReturn:
    raise SystemExit(0)


def _on_crash(crash: threading.ExceptHookArgs) -> None:
    """Ends the process after a defect in a thread: the agent starts another one."""
    import traceback

    traceback.print_exception(crash.exc_type, crash.exc_value, crash.exc_traceback)
    os._exit(1)


if __name__ == "__main__":
    sys.exit(main())

"""Reports the agent's status to the server and receives its directives.

One thread polls for directives. A status change must not wait until a poll returns, so a second thread sends it. Each
request is a heartbeat of the node; `server/nodes/heartbeats.py` decides after how long a silence the node is lost.
"""

from __future__ import annotations

import contextlib
import dataclasses
import threading
import time
from collections import deque
from collections.abc import Callable

from drumbeat.launchers import needs_all_nodes
from drumbeat.model import wire
from drumbeat.model.agent import AgentStatus, Directive, Enrolment, NodeRequest, Order
from drumbeat.model.errors import DrumbeatError, StaleError
from drumbeat.model.failpoints import failpoint
from drumbeat.model.packed_roster import unpacked
from drumbeat.node.platform.agent_log import Journal
from drumbeat.node.platform.request_backoff import Backoff
from drumbeat.node.platform.server_addresses import remember
from drumbeat.node.platform.server_link import ServerLink

WAIT_S = 20.0
MIN_WAIT_S = 0.5
MAX_WAIT_S = 50.0
"""Less than a server lets an agent wait."""
NODES_PER_S = 100
"""The number of nodes for which polls last a second longer."""
_MARGIN_S = 10.0
_IMMEDIATE_S = 0.05
_MAX_STATUSES = 1_000_000_000
"""More statuses than any agent sends."""
_RECEIVED_REQUESTS = 256
"""How many received requests the agent acknowledges: more than can wait for an answer at any time."""


class StatusReporter:
    """Hands each new directive to `on_directive`, in order; calls `on_stale` when the attempt was replaced.

    Requests go to `on_request`, each once.
    """

    def __init__(  # noqa: PLR0913 (the callbacks of one agent)
        self,
        enrolment: Enrolment,
        journal: Journal,
        on_directive: Callable[[Directive], None],
        on_stale: Callable[[], None],
        on_request: Callable[[NodeRequest], None],
        proof: str = "",
    ) -> None:
        self._proof, self._is_over = proof, False
        self._enrolment, self._journal = enrolment, journal
        self._on_directive, self._on_stale, self._on_request = on_directive, on_stale, on_request
        self._news = threading.Condition()
        self._status: AgentStatus | None = None
        self._serial = first_serial(f"{enrolment.root}/serial")
        self._delivered = self._serial

    def begin(self, first: AgentStatus) -> None:
        """Enrols with the first status, and works until the process ends."""
        self.report(first)
        self._delivered = self._serial  # The first poll delivers it.
        for name, work in (("poll", self._poll), ("report", self._report)):
            threading.Thread(target=work, name=name, daemon=True).start()

    def report(self, status: AgentStatus) -> None:
        """Sends the status if it differs from the last one."""
        with self._news:
            if self._status is not None and dataclasses.replace(status, serial=self._serial) == self._status:
                return
            self._serial += 1
            self._status = dataclasses.replace(status, serial=self._serial)
            self._news.notify_all()

    def end(self) -> None:
        """Ends both threads; the last status has been delivered, or isn't needed."""
        with self._news:
            self._is_over = True
            self._news.notify_all()

    def await_delivery(self, within_s: float) -> None:
        """Waits until the server has the last status, at most for this time."""
        with self._news:
            self._news.wait_for(lambda: self._delivered == self._serial, within_s)

    def _poll(self) -> None:
        holds, received = "", deque[str](maxlen=_RECEIVED_REQUESTS)
        wait_s = poll_s(self._enrolment.plan.lost_after_s, self._enrolment.plan.nodes)
        link = ServerLink(self._enrolment, wait_s + _MARGIN_S)
        backoff = Backoff()
        while True:
            asked_at = time.monotonic()
            try:
                directive = wire.from_wire(
                    Directive, link.sync(wire.to_wire(self._status), holds, wait_s, received, self._proof)
                )
                if directive.key != holds:
                    directive = self._with_roster(directive, link)
            except StaleError as error:
                self._end(error)
                return
            except (DrumbeatError, ValueError) as error:
                self._journal.note(f"no directive: {error}")
                backoff.wait()
                continue
            failpoint("agent.enrolled")
            if directive.servers:
                remember(self._enrolment, directive.servers)
            for each in directive.requests:
                received.append(each.id)
                self._on_request(each)
            if directive.key != holds:
                holds = directive.key
                self._on_directive(directive)
                if directive.order is Order.LEAVE:
                    link.close()
                    return
            elif time.monotonic() - asked_at < _IMMEDIATE_S and not directive.requests:
                # A server that answers without waiting must not be polled without a pause.
                backoff.wait()
                continue
            backoff.reset()

    def _with_roster(self, directive: Directive, link: ServerLink) -> Directive:
        """Returns the directive with the whole roster, where this job's launcher needs it."""
        brief = directive.roster
        if brief is None or brief.is_whole or not needs_all_nodes(self._enrolment.plan):
            return directive
        return dataclasses.replace(directive, roster=unpacked(brief.digest, link.roster(brief.digest)))

    def _report(self) -> None:
        link = ServerLink(self._enrolment, _MARGIN_S)
        backoff = Backoff()
        while True:
            with self._news:
                self._news.wait_for(lambda: self._delivered != self._serial or self._is_over)
                if self._is_over:
                    break
                status = self._status
            try:
                link.sync(wire.to_wire(status), "", 0.0)
            except StaleError as error:
                self._end(error)
                return
            except DrumbeatError as error:
                self._journal.note(f"the status hasn't been delivered yet: {error}")
                backoff.wait()
                continue
            if status is not None and status.exits:
                failpoint("agent.exit_told")
            backoff.reset()
            with self._news:
                self._delivered = status.serial if status is not None else self._delivered
                self._news.notify_all()
        link.close()

    def _end(self, error: StaleError) -> None:
        self._journal.note(f"the server says: {error}")
        self._on_stale()


def poll_s(lost_after_s: float, nodes: int = 1) -> float:
    """Returns how long a poll may last: an agent polls three times before its node would count as lost.

    In a gang of thousands of nodes polls are rarer, so that a server that has nothing to say has little to do.
    """
    return min(WAIT_S + nodes // NODES_PER_S, MAX_WAIT_S, max(MIN_WAIT_S, lost_after_s / 3))


def first_serial(path: str) -> int:
    """Returns the first serial of an agent: higher than those of earlier agents in this folder.

    The file protects against a clock that is set back, and the clock against a lost file.
    """
    last = 0
    with contextlib.suppress(OSError, ValueError), open(path, encoding="ascii") as file:
        last = int(file.read())
    serial = max(time.time_ns() // 1000, last + _MAX_STATUSES)
    with contextlib.suppress(OSError), open(path, "w", encoding="ascii") as file:
        file.write(str(serial))
    return serial

"""Keeps the server informed and hears what it wants: a long poll that never ends, and a second line for news.

A change of the status must not wait for the long poll to come back, so it goes by the second line at once.
"""

from __future__ import annotations

import contextlib
import dataclasses
import threading
import time
from collections.abc import Callable

from drumbeat.agent.ground.backoff import Backoff
from drumbeat.agent.ground.journal import Journal
from drumbeat.agent.ground.server_addresses import remember
from drumbeat.agent.ground.server_link import Link
from drumbeat.protocol import wire
from drumbeat.protocol.agent import AgentStatus, Directive, Enrolment
from drumbeat.protocol.errors import DrumbeatError, StaleError
from drumbeat.protocol.faults import faultpoint

WAIT_S = 20.0
SHORTEST_WAIT_S = 0.5
_MARGIN_S = 10.0
_AT_ONCE_S = 0.05
_MANY = 1_000_000_000
"""More statuses than one agent ever has."""


class Reporting:
    """`hear` gets each new directive in order; `be_over` is called once the server says that the attempt is over."""

    def __init__(
        self, enrolment: Enrolment, journal: Journal, hear: Callable[[Directive], None], be_over: Callable[[], None]
    ) -> None:
        self._enrolment, self._journal = enrolment, journal
        self._hear, self._be_over = hear, be_over
        self._news = threading.Condition()
        self._status: AgentStatus | None = None
        self._serial = first_serial(f"{enrolment.root}/serial")
        self._told = self._serial

    def begin(self, first: AgentStatus) -> None:
        """Enrols with the first status, and goes on until the process ends."""
        self.tell(first)
        self._told = self._serial  # It goes with the first poll.
        for name, work in (("poll", self._poll), ("report", self._report)):
            threading.Thread(target=work, name=name, daemon=True).start()

    def tell(self, status: AgentStatus) -> None:
        """Sends it if it says something new."""
        with self._news:
            if self._status is not None and dataclasses.replace(status, serial=self._serial) == self._status:
                return
            self._serial += 1
            self._status = dataclasses.replace(status, serial=self._serial)
            self._news.notify_all()

    def await_told(self, within_s: float) -> None:
        """Until the server has the last status, or that can't be had in time."""
        with self._news:
            self._news.wait_for(lambda: self._told == self._serial, within_s)

    def _poll(self) -> None:
        holds = ""
        wait_s = poll_s(self._enrolment.plan.lost_after_s)
        link = Link(self._enrolment, wait_s + _MARGIN_S)
        backoff = Backoff()
        while True:
            asked_at = time.monotonic()
            try:
                directive = wire.from_wire(Directive, link.sync(wire.to_wire(self._status), holds, wait_s))
            except StaleError as error:
                self._end(error)
                return
            except (DrumbeatError, ValueError) as error:
                self._journal.note(f"no directive: {error}")
                backoff.wait()
                continue
            faultpoint("agent.enrolled")
            if directive.servers:
                remember(self._enrolment, directive.servers)
            if directive.key != holds:
                holds = directive.key
                self._hear(directive)
            elif time.monotonic() - asked_at < _AT_ONCE_S:
                # A server that has no time to wait isn't asked again and again.
                backoff.wait()
                continue
            backoff.reset()

    def _report(self) -> None:
        link = Link(self._enrolment, _MARGIN_S)
        backoff = Backoff()
        while True:
            with self._news:
                self._news.wait_for(lambda: self._told != self._serial)
                status = self._status
            try:
                link.sync(wire.to_wire(status), "", 0.0)
            except StaleError as error:
                self._end(error)
                return
            except DrumbeatError as error:
                self._journal.note(f"the status waits: {error}")
                backoff.wait()
                continue
            if status is not None and status.exits:
                faultpoint("agent.exit_told")
            backoff.reset()
            with self._news:
                self._told = status.serial if status is not None else self._told
                self._news.notify_all()

    def _end(self, error: StaleError) -> None:
        self._journal.note(f"the server says: {error}")
        self._be_over()


def poll_s(lost_after_s: float) -> float:
    """How long a poll may last: an agent with nothing new to say is heard three times before its node would be lost."""
    return min(WAIT_S, max(SHORTEST_WAIT_S, lost_after_s / 3))


def first_serial(path: str) -> int:
    """Where an agent begins to count its statuses: beyond all that were counted in this folder, or ever before now.

    The file outlives a clock that is put back, the clock a disk that is lost.
    """
    known = 0
    with contextlib.suppress(OSError, ValueError), open(path, encoding="ascii") as file:
        known = int(file.read())
    serial = max(time.time_ns() // 1000, known + _MANY)
    with contextlib.suppress(OSError), open(path, "w", encoding="ascii") as file:
        file.write(str(serial))
    return serial

"""Asks the provider at intervals whether sessions go on, so that they end here when they end there."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from drumbeat.model.errors import DrumbeatError, ForbiddenError, RefusedError, UnauthorizedError, UnreachableError
from drumbeat.ports.clock import Clock
from drumbeat.server.sign_in.provider_session import ProviderSession
from drumbeat.server.sign_in.sign_in import SignIn

log = logging.getLogger(__name__)

MAX_PAUSE_S = 30.0


class SessionCheck:
    """A thread of the active server. A provider that doesn't answer ends no session."""

    def __init__(self, sign_in: SignIn, clock: Clock, is_active: Callable[[], bool]) -> None:
        self._sign_in, self._clock, self._is_active = sign_in, clock, is_active
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="session-check", daemon=True)
        self._problem = ""

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Ends it; it may be waiting for the provider, which is of no use any more."""
        self._stopping.set()

    def _run(self) -> None:
        pause_s = min(MAX_PAUSE_S, self._sign_in.settings.check_every.total_seconds() / 2)
        while not self._stopping.wait(pause_s):
            try:
                if self._is_active():
                    self.run_due()
            except DrumbeatError as error:
                log.warning("the sessions of sign-ins are looked at again: %s", error)

    def run_due(self) -> None:
        """Checks the sessions whose time it is, until the provider doesn't answer. Raises StorageError."""
        due = self._clock.now() - self._sign_in.settings.check_every
        for session in self._sign_in.sessions():
            if self._stopping.is_set() or session.checked_at > due:
                return
            if not self._sign_in.has_valid_token(session):
                self._sign_in.forget(session)
            elif session.sealed and not self._check(session):
                return

    def _check(self, session: ProviderSession) -> bool:
        """Checks one session. Returns False where the provider doesn't answer."""
        name = self._sign_in.name_of(session)
        try:
            self._sign_in.check(session)
        except (UnauthorizedError, ForbiddenError) as error:
            log.info("the session of %s ends: %s", name, error.what)
            self._sign_in.end(session, name, "/ended")
        except RefusedError as error:
            self._note(f"a session of {name} can't be checked, and goes on: {error}")
        except UnreachableError as error:
            self._note(f"sessions can't be checked, and go on: {error}")
            return False
        else:
            self._note("")
        return True

    def _note(self, problem: str) -> None:
        if problem and problem != self._problem:
            log.warning("%s", problem)
        self._problem = problem

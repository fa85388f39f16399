"""The wait of a server for the lease, while another one is the active server."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from drumbeat.model.errors import StorageError
from drumbeat.server.loop.loop import Loop

log = logging.getLogger(__name__)

TRY_INTERVAL_S = 0.5
"""How often a server that stands by tries to take the lease."""


class LeaseWait:
    """Makes a server the active one, at once or when the lease is free.

    activate: starts the threads of the active server.
    """

    def __init__(self, loop: Loop, activate: Callable[[], None]) -> None:
        self._loop, self._activate = loop, activate
        self.is_active = False
        """Whether this server is the active one, and takes requests."""
        self.is_replaced = False
        """Whether it was the active one, and another server has taken the lease. It can't become active again."""
        self.on_replaced: Callable[[], None] = _nothing
        """Is called once, from any thread, when another server has taken the lease."""
        loop.on_replaced = self._note_replaced
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="standby", daemon=True)

    def open(self) -> bool:
        """Takes the lease; returns False while another server is the active one."""
        self.is_active = self._loop.open()
        return self.is_active

    def start(self) -> None:
        """Activates the server now or, on a thread of its own, once it can take the lease."""
        if self.open():
            self._loop.start()
            self._activate()
        else:
            log.info("another server is the active one; this one stands by")
            self._thread.start()

    def stop(self) -> None:
        """Ends the wait."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while not self._stopping.wait(TRY_INTERVAL_S):
            try:
                is_open = self._loop.open()
            except StorageError as error:
                log.warning("the lease can't be asked for: %s", error)
                continue
            if is_open:
                log.info("this server has become the active one")
                self._loop.start()  # Requests run on its thread.
                self.is_active = True
                self._activate()
                return

    def _note_replaced(self) -> None:
        self.is_active, self.is_replaced = False, True
        self.on_replaced()


def _nothing() -> None:
    """The result isn't needed."""

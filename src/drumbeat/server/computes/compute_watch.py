"""The watch over computes: their machines are read again and again, and the addresses at which agents call."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from drumbeat.server.computes.agent_addresses import AgentAddresses
from drumbeat.server.computes.engines import Engines
from drumbeat.server.computes.node_states import NodeStates
from drumbeat.server.computes.scaler import Scaler

log = logging.getLogger(__name__)

LOOK_INTERVAL_S = 1.0
"""How often machines are read, and the addresses of other servers."""


class ComputeWatch:
    """Keeps engines, the states of machines, their number, and addresses current, on a thread of its own.

    is_active: a server that stands by scales nothing, and ends what is left on its own machine.
    """

    def __init__(
        self,
        engines: Engines,
        addresses: AgentAddresses,
        states: NodeStates,
        scaler: Scaler,
        is_active: Callable[[], bool],
    ) -> None:
        self._engines, self._addresses = engines, addresses
        self._states, self._scaler, self._is_active = states, scaler, is_active
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="computes", daemon=True)

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Ends the thread."""
        self._stopping.set()
        self._engines.stop()
        if self._thread.is_alive():
            self._thread.join(timeout=2)

    def _run(self) -> None:
        while not self._stopping.wait(LOOK_INTERVAL_S):
            try:
                self.look()
            except Exception:
                if not self._stopping.is_set():
                    log.exception("the computes could not be looked at; trying again")

    def look(self) -> None:
        """Looks once."""
        self._engines.look()
        if self._is_active():
            self._states.look()
            self._scaler.look()
        else:
            self._engines.sweep_given()
        self._addresses.look()

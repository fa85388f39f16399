"""The watch over computes, which periodically reads their machines and the addresses for agents."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from drumbeat.server.computes.agent_addresses import AgentAddresses
from drumbeat.server.computes.capacity_record import CapacityRecord
from drumbeat.server.computes.engines import Engines
from drumbeat.server.computes.node_states import NodeStates
from drumbeat.server.computes.scaler import Scaler

log = logging.getLogger(__name__)

LOOK_INTERVAL_S = 1.0
"""How often the machines and the addresses of other servers are read."""


class ComputeWatch:
    """Refreshes engines, states of machines, scaling and addresses on a thread of its own.

    is_active: a standby server doesn't scale; it only ends leftover gangs on its own machine.
    """

    def __init__(
        self,
        engines: Engines,
        addresses: AgentAddresses,
        states: NodeStates,
        scaler: Scaler,
        capacities: CapacityRecord,
        is_active: Callable[[], bool],
    ) -> None:
        self._engines, self._addresses = engines, addresses
        self._states, self._scaler, self._is_active = states, scaler, is_active
        self._capacities = capacities
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
                    log.exception("the computes could not be refreshed; trying again")

    def look(self) -> None:
        """Refreshes everything once."""
        self._engines.look()
        if self._is_active():
            self._states.look()
            self._scaler.look()
            self._capacities.look(self._engines.all())
        else:
            self._engines.sweep_given()
        self._addresses.look()

"""The addresses that engines of computes have named for agents. A listener on any other address can be closed."""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Collection, Mapping, Sequence

from drumbeat.model.errors import DrumbeatError
from drumbeat.ports.clock import Clock
from drumbeat.ports.engines import AgentListeners, Engine
from drumbeat.server.computes.engines import Engines

log = logging.getLogger(__name__)

_INTERVAL_S, _MAX_INTERVAL_S = 2.0, 64.0
"""The pause before engines that failed to answer are asked again: the first one, and the longest."""


class AddressClaims:
    """The addresses that agents of each compute call, by its engine. Thread-safe."""

    def __init__(self, engines: Engines, clock: Clock) -> None:
        self._engines, self._clock = engines, clock
        self._claims: dict[str, tuple[Engine, frozenset[str]]] = {}
        self._lock = threading.Lock()
        """Held so that a listener isn't closed which a compute has just asked for."""
        self._thread: threading.Thread | None = None
        """Asks the engines, which may resolve names and take long."""
        self._interval_s, self._due_at = _INTERVAL_S, -math.inf

    def claim(self, compute: str, engine: Engine) -> Sequence[str]:
        """Returns the addresses for the agents of a compute, and claims them. Raises EngineError, UnreachableError."""
        addresses = engine.server_addresses()
        with self._lock:
            if self._engines.get(compute) is engine:  # The engine may have been replaced meanwhile.
                owner, before = self._claims.get(compute, (engine, frozenset[str]()))
                # Agents may still call an address that the engine named before.
                self._claims[compute] = engine, frozenset(addresses) | (before if owner is engine else frozenset())
        return addresses

    def far(self) -> frozenset[str] | None:
        """Returns the computes whose agents call from other machines; None = some engines haven't answered yet.

        Those are asked in the background, for a later call. Doesn't block.
        """
        engines = {name: one.engine for name, one in self._engines.all().items()}
        with self._lock:
            claims = dict(self._claims)
        unknown = {name: one for name, one in engines.items() if name not in claims or claims[name][0] is not one}
        if unknown:
            self._ask(unknown)
            return None
        return frozenset(name for name in engines if claims[name][1])

    def close_unused(self, listeners: AgentListeners, candidates: Collection[str], inherited: frozenset[str]) -> None:
        """Closes the candidates that no compute claims and that aren't inherited."""
        with self._lock:
            # Read again: a compute may have been created since, and its agents may have got an address.
            engines = self._engines.all()
            self._claims = {name: one for name, one in self._claims.items() if name in engines}
            used = {address for _, addresses in self._claims.values() for address in addresses}
            listeners.close_unused(candidates, used | inherited)

    def _ask(self, engines: Mapping[str, Engine]) -> None:
        is_asking = self._thread is not None and self._thread.is_alive()
        if not is_asking and self._clock.monotonic() >= self._due_at:
            self._thread = threading.Thread(target=self._run, args=[engines], name="agent addresses", daemon=True)
            self._thread.start()

    def _run(self, engines: Mapping[str, Engine]) -> None:
        have_answered = [self._has_answered(name, engine) for name, engine in engines.items()]
        if all(have_answered):
            self._interval_s, self._due_at = _INTERVAL_S, -math.inf
        else:
            self._due_at = self._clock.monotonic() + self._interval_s
            self._interval_s = min(2 * self._interval_s, _MAX_INTERVAL_S)

    def _has_answered(self, compute: str, engine: Engine) -> bool:
        try:
            self.claim(compute, engine)
        except DrumbeatError:  # The start of a job reports it; until then the engine is asked again.
            return False
        except Exception:
            log.exception("the engine of compute %s failed to name the addresses for its agents", compute)
            return False
        return True

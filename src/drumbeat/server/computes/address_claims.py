"""What the engines of computes have named as this server's addresses: a door at none of them can be closed."""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Collection, Mapping, Sequence

from drumbeat.model.errors import DrumbeatError
from drumbeat.ports.clock import Clock
from drumbeat.ports.engines import Doors, Engine
from drumbeat.server.computes.engines import Engines

log = logging.getLogger(__name__)

_INTERVAL_S, _MAX_INTERVAL_S = 2.0, 64.0
"""How long after engines were asked in vain they are asked again: at first, and at most."""


class AddressClaims:
    """The addresses at which agents of each compute call, as its engine has named them. Thread-safe."""

    def __init__(self, engines: Engines, clock: Clock) -> None:
        self._engines, self._clock = engines, clock
        self._claims: dict[str, tuple[Engine, frozenset[str]]] = {}
        self._lock = threading.Lock()
        """Held so that no door is closed which a compute has just asked for."""
        self._thread: threading.Thread | None = None
        """Asks engines, which may look names up and take long."""
        self._interval_s, self._due_at = _INTERVAL_S, -math.inf

    def claim(self, compute: str, engine: Engine) -> Sequence[str]:
        """Where the agents of a compute call, noted as in use. Raises EngineError, UnreachableError."""
        addresses = engine.server_addresses()
        with self._lock:
            if self._engines.get(compute) is engine:  # It may have been replaced while it was asked.
                owner, before = self._claims.get(compute, (engine, frozenset[str]()))
                # Agents may call at an address that the engine named before.
                self._claims[compute] = engine, frozenset(addresses) | (before if owner is engine else frozenset())
        return addresses

    def far(self) -> frozenset[str] | None:
        """Computes whose agents call from elsewhere; None = not every engine has named its addresses yet.

        Those that haven't are asked meanwhile, for a later call. Quick.
        """
        engines = {name: one.engine for name, one in self._engines.all().items()}
        with self._lock:
            claims = dict(self._claims)
        unknown = {name: one for name, one in engines.items() if name not in claims or claims[name][0] is not one}
        if unknown:
            self._ask(unknown)
            return None
        return frozenset(name for name in engines if claims[name][1])

    def close_unused(self, doors: Doors, candidates: Collection[str], inherited: frozenset[str]) -> None:
        """Closes those candidates that no compute claims now and that aren't inherited."""
        with self._lock:
            # Read again: a compute may have been created since, and its agents told where to call.
            engines = self._engines.all()
            self._claims = {name: one for name, one in self._claims.items() if name in engines}
            used = {address for _, addresses in self._claims.values() for address in addresses}
            doors.close_unused(candidates, used | inherited)

    def _ask(self, engines: Mapping[str, Engine]) -> None:
        is_asking = self._thread is not None and self._thread.is_alive()
        if not is_asking and self._clock.monotonic() >= self._due_at:
            self._thread = threading.Thread(target=self._run, args=[engines], name="door addresses", daemon=True)
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
        except DrumbeatError:  # A job's start says so; until then it is asked again.
            return False
        except Exception:
            log.exception("compute %s could not be asked where its agents call", compute)
            return False
        return True

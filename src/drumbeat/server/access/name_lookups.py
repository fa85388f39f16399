"""Background lookups of the names that agents call, for threads that mustn't wait for a name server."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping

from drumbeat.model.errors import DrumbeatError
from drumbeat.server.access.listen_addresses import HostAddress

_INTERVAL_S, _MAX_INTERVAL_S = 4.0, 32.0
"""Time between two lookups, and its maximum while none of the names can be resolved."""


class NameLookups:
    """Resolves names on a thread of its own, one after the other. For one caller.

    look_up: resolves a name; raises EngineError, UnreachableError.
    """

    def __init__(self, look_up: Callable[[str], HostAddress]) -> None:
        self._look_up = look_up
        self._thread: threading.Thread | None = None
        self._answers: dict[str, HostAddress | DrumbeatError] = {}
        self._interval_s, self._due_at = _INTERVAL_S, 0.0

    def answers(self, names: Collection[str]) -> Mapping[str, HostAddress | DrumbeatError]:
        """Returns the answers since the last call, and starts the next lookups when they are due. Doesn't block."""
        if self._thread is not None and self._thread.is_alive():
            return {}
        answers, self._answers = self._answers, {}
        if names and time.monotonic() >= self._due_at:
            self._thread = threading.Thread(target=self._run, args=[sorted(names)], name="names", daemon=True)
            self._thread.start()
        return answers

    def _run(self, names: Collection[str]) -> None:
        answers = {name: self._answer(name) for name in names}
        has_failed = all(isinstance(one, DrumbeatError) for one in answers.values())
        self._interval_s = min(2 * self._interval_s, _MAX_INTERVAL_S) if has_failed else _INTERVAL_S
        self._due_at = time.monotonic() + self._interval_s
        self._answers = answers

    def _answer(self, name: str) -> HostAddress | DrumbeatError:
        try:
            return self._look_up(name)
        except DrumbeatError as error:
            return error

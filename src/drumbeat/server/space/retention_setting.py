"""The retention rule of a server: after how long jobs that have ended are deleted.

Which of them are old enough is decided in `core/deletion_rules.py`; `job_pruning.py` beside this file deletes them.
"""

from __future__ import annotations

import logging
from datetime import timedelta

from drumbeat.model.errors import RefusedError
from drumbeat.server.database import SqlStore

log = logging.getLogger(__name__)

SETTING = "retain_s"
MIN_RETAIN_S = 60.0
MAX_AGE_S = 100 * 365 * 86400.0
"""The longest age that a person may give."""


class RetentionRule:
    """The rule of all servers over one store; it survives restarts. Thread-safe."""

    def __init__(self, store: SqlStore) -> None:
        self._store = store

    @property
    def retain_s(self) -> float:
        """After how many seconds jobs that have ended are deleted; 0 = never."""
        return float(self._store.setting(SETTING) or 0.0)

    def set(self, retain_s: float) -> None:
        """Sets the rule; 0 = nothing is deleted. Raises RefusedError for a time that is too short or too long."""
        if retain_s and not MIN_RETAIN_S <= retain_s < timedelta.max.total_seconds():
            what = f"jobs can't be retained for {retain_s:g} s; the shortest time is {MIN_RETAIN_S:g} s"
            raise RefusedError(what, where="retain_s", fix="Give a longer time, like 30d; `off` turns the rule off.")
        self._store.set_setting(SETTING, repr(retain_s) if retain_s else "")
        log.info("retention: %s", f"jobs are deleted {retain_s:g} s after their end" if retain_s else "off")

"""The retention rule: after how long ended jobs are deleted.

`core/deletion_rules.py` decides which jobs are old enough; `job_pruning.py` deletes them.
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
"""The longest age that can be set."""


class RetentionRule:
    """The stored rule, which survives restarts. Thread-safe."""

    def __init__(self, store: SqlStore) -> None:
        self._store = store

    @property
    def retain_s(self) -> float:
        """After how many seconds ended jobs are deleted; 0 = never."""
        return float(self._store.setting(SETTING) or 0.0)

    def set(self, retain_s: float) -> None:
        """Sets the rule; 0 = never delete. Raises RefusedError for a time that is too short or too long."""
        if retain_s and not MIN_RETAIN_S <= retain_s < timedelta.max.total_seconds():
            what = f"jobs can't be retained for {retain_s:g} s; the shortest time is {MIN_RETAIN_S:g} s"
            raise RefusedError(what, where="retain_s", fix="Give a longer time, like 30d; `off` turns the rule off.")
        self._store.set_setting(SETTING, repr(retain_s) if retain_s else "")
        log.info("retention: %s", f"jobs are deleted {retain_s:g} s after their end" if retain_s else "off")

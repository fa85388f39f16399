"""The agent's own log on the node, for the machine's administrator. Never more than two small files."""

from __future__ import annotations

import os
import threading
from datetime import datetime

_MOST = 1 << 20


class Journal:
    """The agent's log: one line per note in `path`; the older half is in `path`.1. Disk errors are ignored."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._lock = threading.Lock()

    def note(self, text: str) -> None:
        """Writes a note, with the time."""
        at = datetime.now().astimezone().isoformat(timespec="milliseconds")
        try:
            with self._lock, open(self._path, "a", encoding="utf-8", errors="replace") as file:
                file.write(f"{at} {text}\n")
                if file.tell() > _MOST:
                    os.replace(self._path, self._path + ".1")
        except OSError:
            return

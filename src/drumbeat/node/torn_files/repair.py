"""Restores the files of a checkpoint folder whose save was interrupted, from the copies that `copies` has made."""

from __future__ import annotations

import os
import shutil
from datetime import UTC, datetime

from drumbeat.model.failpoints import failpoint
from drumbeat.model.folder_layout import LAST_GOOD
from drumbeat.node.platform import locks
from drumbeat.node.torn_files.copies import COPIES, format_size, hold, judge
from drumbeat.node.torn_files.formats import SHORTEST_BYTES, Content
from drumbeat.node.torn_files.saved_files import FileState, saved_files

ASIDE, CHECK_LOCK = "aside", "check.lock"


class TornFiles:
    """The torn files of one checkpoint folder: starts of interrupted saves."""

    def __init__(self, root: str) -> None:
        self._root, self._folder = root, f"{root}/{LAST_GOOD}"
        self._copies = f"{self._folder}/{COPIES}"

    def restore(self) -> list[str]:
        """Replaces each torn file with its copy, or moves it aside if it has none; returns a message for each.

        No rank may run. Raises OSError.
        """
        if not self._torn():
            return []
        os.makedirs(self._folder, 0o700, exist_ok=True)
        with locks.alone(f"{self._folder}/{CHECK_LOCK}"):
            torn = self._torn()  # An agent of another node may have been first.
            return [self._replaced(path) for path in sorted(torn)]

    def close(self) -> None:
        """Removes the copies, unless a file is torn: then the next attempt restores it. Raises OSError.

        Does nothing while the agent of another node, or of the next attempt, makes copies here.
        """
        lock = hold(self._folder)
        if lock is None:
            return
        try:
            if not self._torn():
                shutil.rmtree(self._copies if os.path.isdir(f"{self._folder}/{ASIDE}") else self._folder)
        finally:
            os.close(lock)

    def _torn(self) -> list[str]:
        files, copies = saved_files(self._root), saved_files(self._copies)
        return [path for path, state in files.items() if self._is_torn(path, state, copies.get(path))]

    def _is_torn(self, path: str, state: FileState, copy: FileState | None) -> bool:
        if state == copy:
            return False
        if copy and state.bytes < SHORTEST_BYTES:  # Only the copy shows the format.
            return judge(f"{self._copies}/{path}") is Content.WHOLE
        return judge(f"{self._root}/{path}") is Content.TORN

    def _replaced(self, path: str) -> str:
        try:
            return self._replace(path)
        except OSError as error:
            return f"{path} is the start of an interrupted save, and can't be restored: {error}"

    def _replace(self, path: str) -> str:
        place, copy, aside = (f"{folder}/{path}" for folder in (self._root, self._copies, f"{self._folder}/{ASIDE}"))
        cut = f"{path} ({format_size(os.path.getsize(place))}) is the start of an interrupted save"
        if not os.path.exists(copy):
            os.makedirs(os.path.dirname(aside), exist_ok=True)
            os.replace(place, aside)
            return f"{cut}; it has no earlier complete version, and was moved to {LAST_GOOD}/{ASIDE}"
        status = os.stat(copy)
        os.replace(copy, place)
        failpoint("checkpoint.put_back")
        saved = datetime.fromtimestamp(status.st_mtime, UTC)
        return f"{cut}; it was restored as of {saved:%Y-%m-%d %H:%M:%S} UTC ({format_size(status.st_size)})"

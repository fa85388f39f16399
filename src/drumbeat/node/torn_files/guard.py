"""Guards a node's checkpoint folder: copies complete files while the ranks run, and restores torn ones before they
start.

Of several nodes that share the folder, one makes the copies.
"""

from __future__ import annotations

import os
import threading
import time
import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING

from drumbeat.model.agent import Enrolment, NodeMessage
from drumbeat.model.folder_layout import LAST_GOOD

if TYPE_CHECKING:
    from drumbeat.node.torn_files.copies import FileCopies, TornFiles

LOOK_INTERVAL_S = 0.5
_LOCK_INTERVAL_S = 15.0
"""How often a node checks whether the node that makes the copies is gone."""
_MAX_NAMED = 5
"""The maximum number of files without a copy that are reported."""
_CLOSE_S = 10.0
"""How long a leaving agent waits for the folder: a share may hang."""
_LIST_TIMEOUT_S = 5.0
"""How long it waits for the list of the folder at the end of a round."""
_MAX_SHARE = 5
"""Checks and copies take at most one part in this many of the time."""


class CheckpointGuard:
    """Guards the checkpoint folder of one attempt. note: writes to the agent's journal. remember: stores a message."""

    def __init__(
        self, enrolment: Enrolment, note: Callable[[str], None], remember: Callable[[NodeMessage], None]
    ) -> None:
        self._folder, self._node = enrolment.checkpoints, enrolment.node
        self._limit = enrolment.plan.checkpoint_copies_gib << 30
        self._note, self._remember = note, remember
        self._unprotected = set[str]()
        self._thread: threading.Thread | None = None
        self._is_over = threading.Event()

    def check(self, round_: int) -> None:
        """Restores files that ranks were writing when they ended. No rank of the job may run."""
        self._stop()
        if self._limit and self._has_files():
            self._tell(round_, self._torn_files().restore)

    def begin(self) -> None:
        """Makes copies until `end`. Idempotent."""
        if not self._limit or (self._thread and not self._is_over.is_set()):
            return
        before, self._is_over = self._thread, threading.Event()
        work = (self._is_over, before)
        self._thread = threading.Thread(target=self._watch, args=work, name="checkpoints", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Stops copying, as the ranks have ended."""
        self._is_over.set()

    def close(self) -> None:
        """Ends the guard with the attempt. The copies are removed if all files of the ranks are complete."""
        self.end()
        if not self._limit:
            return
        work = threading.Thread(target=self._remove_copies, name="checkpoints-end", daemon=True)
        work.start()
        work.join(_CLOSE_S)

    def has_saved(self) -> bool:
        """Whether the job has saved a checkpoint: its folder has a file. An unresponsive share counts as empty."""
        answers: list[bool] = []
        work = threading.Thread(target=lambda: answers.append(self._has_saved()), name="checkpoints-list", daemon=True)
        work.start()
        work.join(_LIST_TIMEOUT_S)
        return any(answers)

    def _has_saved(self) -> bool:
        # The copies and their locks stay for a moment when a program has removed what it saved.
        copies = f"{self._folder}/{LAST_GOOD}"
        return any(names for place, _, names in os.walk(self._folder) if not f"{place}/".startswith(f"{copies}/"))

    def _remove_copies(self) -> None:
        self._stop()
        try:
            if self._has_files():
                self._torn_files().close()
        except OSError as error:
            self._note(f"copies of checkpoints can't be removed: {error}")

    def _stop(self) -> None:
        self.end()
        if self._thread:
            self._thread.join()

    def _has_files(self) -> bool:
        """Whether there is anything to copy or restore: agents without checkpoints load no more than this."""
        try:
            with os.scandir(self._folder) as entries:
                return any(entries)
        except OSError:
            return False

    def _file_copies(self) -> FileCopies:
        from drumbeat.node.torn_files.copies import FileCopies

        return FileCopies(self._folder, self._limit, self._report_unprotected)

    def _torn_files(self) -> TornFiles:
        from drumbeat.node.torn_files.copies import TornFiles

        return TornFiles(self._folder)

    def _tell(self, round_: int, work: Callable[[], list[str]]) -> None:
        """Runs `work` and reports its messages as events of the job. The ranks start whatever goes wrong here."""
        try:
            messages = work()
        except Exception as error:  # noqa: BLE001 (no job may end because of it)
            messages = [f"interrupted saves can't be detected: {error}"]
        for sentence in messages:
            self._note(f"checkpoints: {sentence}")
        if messages:
            about = f"checkpoints before round {round_} on node {self._node}"
            self._remember(NodeMessage(about, f"checkpoints: {'. '.join(messages)}"))

    def _report_unprotected(self, path: str, why: str) -> None:
        if path in self._unprotected or len(self._unprotected) == _MAX_NAMED:
            return
        self._unprotected.add(path)
        sentence = f"checkpoints: {path} has no copy, so a rank that dies while saving it leaves none: {why}"
        self._note(sentence)
        self._remember(NodeMessage(f"checkpoints without a copy on node {self._node}: {path}", sentence))

    def _watch(self, is_over: threading.Event, before: threading.Thread | None) -> None:
        if before:
            before.join()
        try:
            self._copy_until(is_over)
        except Exception:  # noqa: BLE001 (no job may end because of it)
            self._note(f"checkpoints are no longer copied: {traceback.format_exc()}")

    def _copy_until(self, is_over: threading.Event) -> None:
        copies, lock, pause_s, trouble = None, None, LOOK_INTERVAL_S, ""
        try:
            while not is_over.wait(pause_s):
                begun = time.monotonic()
                if copies is None and not self._has_files():
                    continue
                copies = copies or self._file_copies()
                try:
                    if lock is None:
                        lock = copies.hold()
                    if lock is None:
                        pause_s = _LOCK_INTERVAL_S
                        continue
                    copies.look(is_over.is_set)
                    trouble = ""
                except OSError as error:
                    if str(error) != trouble:
                        trouble = str(error)
                        self._note(f"checkpoints can't be copied now: {trouble}")
                pause_s = max(LOOK_INTERVAL_S, (_MAX_SHARE - 1) * (time.monotonic() - begun))
        finally:
            if lock is not None:
                os.close(lock)

"""The node's own log of a round: the output of environment tools and the preparation, sent to the server live."""

from __future__ import annotations

import os
import threading

from drumbeat.model.agent import Enrolment
from drumbeat.model.logs import NODE_LOG, LogName
from drumbeat.node.logs.sender import GrowingLog, LogSender, pause_s
from drumbeat.node.platform.agent_log import Journal
from drumbeat.node.platform.server_link import ServerLink


class NodeLog:
    """The log of a node. It is created and followed with the first write: most rounds have none. Thread-safe."""

    def __init__(self, enrolment: Enrolment, number: int, journal: Journal) -> None:
        self._enrolment, self._journal = enrolment, journal
        self.round = number
        self.told_by = f"drumbeat logs {enrolment.plan.job} --node {enrolment.node}"
        self._name = LogName(enrolment.attempt, number, enrolment.node, NODE_LOG).path
        self._path = f"{enrolment.root}/{self._name}"
        self._lock = threading.Lock()
        self._sender: LogSender | None = None
        self._sent = threading.Event()

    @property
    def path(self) -> str:
        """The path of the file, for a writer that appends to it."""
        with self._lock:
            if self._sender is None:
                os.makedirs(os.path.dirname(self._path), exist_ok=True)
                log = GrowingLog(self._path, self._name)
                pause = pause_s(self._enrolment.plan.nodes)
                self._sender = LogSender(
                    [log], ServerLink(self._enrolment), self._journal, self._sent.set, pause_s=pause
                )
        return self._path

    def say(self, message: str) -> None:
        """Adds a message of drumbeat itself."""
        self.add(f"drumbeat: {message}")

    def add(self, text: str) -> None:
        """Adds lines."""
        with open(self.path, "a", encoding="utf-8", errors="replace") as file:
            file.write(text.rstrip("\n") + "\n")

    def size(self) -> int:
        """The size so far, in bytes."""
        try:
            return os.stat(self._path).st_size
        except FileNotFoundError:
            return 0

    def read(self, offset: int, most: int) -> str:
        """The text from `offset` on, at most its last `most` bytes."""
        try:
            with open(self._path, "rb") as file:
                file.seek(max(offset, file.seek(0, os.SEEK_END) - most))
                return file.read(most).decode("utf-8", "replace")
        except FileNotFoundError:
            return ""

    def last_line(self, offset: int = 0) -> str:
        """The last line that isn't empty."""
        lines = self.read(offset, 4096).splitlines()
        return next((line.strip() for line in reversed(lines) if line.strip()), "")

    def tail(self, lines: int) -> str:
        """The last `lines` lines."""
        return "\n".join(self.read(0, 16 << 10).splitlines()[-lines:])

    def finish(self, within_s: float) -> None:
        """Ends the log; returns when the server has all of it, or after `within_s`."""
        with self._lock:
            sender = self._sender
        if sender is not None:
            sender.finish()
            self._sent.wait(within_s)

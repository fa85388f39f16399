"""The logs of a round on this node: their files, and their transfer to the server."""

from __future__ import annotations

import os
from collections.abc import Callable

from drumbeat.model.agent import Enrolment
from drumbeat.model.logs import NODE_LOG, LogName
from drumbeat.node.logs.sender import GrowingLog, LogSender, pause_s
from drumbeat.node.platform.agent_log import Journal
from drumbeat.node.platform.server_link import ServerLink


class RoundLogs:
    """Sends the logs of the last followed round. paths: its files by rank."""

    def __init__(self, enrolment: Enrolment, journal: Journal) -> None:
        self._enrolment, self._journal = enrolment, journal
        self._sender: LogSender | None = None
        self._is_canceled = False
        self.paths: dict[int, str] = {}

    def follow(self, number: int, done: Callable[[], None]) -> None:
        """Begins to send the logs of a round. done: is called in another thread when all has arrived."""
        attempt, node, root, plan = (
            self._enrolment.attempt, self._enrolment.node, self._enrolment.root, self._enrolment.plan,
        )  # fmt: skip
        names = {each.rank: LogName(attempt, number, each.node, each.rank).path for each in plan.on(node)}
        self.paths = {rank: f"{root}/{name}" for rank, name in names.items()}
        logs = [GrowingLog(self.paths[rank], name, plan.max_log_mib << 20) for rank, name in names.items()]
        own = LogName(attempt, number, node, NODE_LOG).path
        if os.path.exists(f"{root}/{own}"):  # An earlier agent may not have sent all of them.
            logs.append(GrowingLog(f"{root}/{own}", own))
        pause = pause_s(plan.world_size)
        self._sender = LogSender(logs, ServerLink(self._enrolment), self._journal, done, pause_s=pause)
        if self._is_canceled:
            self._sender.on_cancel()

    @property
    def loss(self) -> str:
        """The message about logs of the last round that the server won't receive, "" = it has all, or will."""
        return self._sender.loss if self._sender is not None else ""

    def on_cancel(self) -> None:
        """Records that the job was canceled: its end doesn't wait long for logs that the server fails to accept."""
        self._is_canceled = True
        if self._sender is not None:
            self._sender.on_cancel()

    def finish(self) -> None:
        """Sends the rest after the ranks have ended."""
        if self._sender is not None:
            self._sender.finish()

"""Sets a node up for its ranks: files, their environment or container, then the job's preparation."""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass

from drumbeat.model.agent import Enrolment
from drumbeat.model.errors import RefusedError, StorageError
from drumbeat.model.failpoints import failpoint
from drumbeat.model.roster import Member
from drumbeat.node.agent.round_process_specs import RoundProcesses
from drumbeat.node.logs.node_log import NodeLog
from drumbeat.node.platform import completion_marks
from drumbeat.node.supervisor.node_tasks import NodeTasks, TaskCommand

Say = Callable[[str], None]

_LOGS_TIMEOUT_S = 10.0
"""How long a node waits for the server to receive the end of its log before it continues."""


@dataclass(frozen=True)
class Reports:
    """The callbacks of a node's setup."""

    progress: Say
    """Receives progress messages of all parts."""
    building: Callable[[], None]
    """Is called, any number of times, when something is built or fetched for the environment of the ranks."""
    built: Callable[[], None]
    """Is called when the environment is ready or has failed."""


class NodeSetup:
    """Sets one node up for one round."""

    def __init__(
        self, enrolment: Enrolment, processes: RoundProcesses, node_tasks: NodeTasks, log: NodeLog, reports: Reports
    ) -> None:
        self._plan, self._root = enrolment.plan, enrolment.root
        self._processes, self._node_tasks = processes, node_tasks
        self._log, self._report, self._reports = log, reports.progress, reports
        self._progress: dict[str, str] = {}

    def run(self, member: Member, stage: Callable[[Say], None]) -> None:
        """Sets the node up. stage: stages the files. Raises the first DrumbeatError of any part."""
        try:
            if self._plan.shares:
                from drumbeat.node.inputs import shares

                shares.require(self._plan.shares, self._report)
            self._processes.check()
            if self._processes.has_much:
                self._side_by_side({"files": stage, "environment": self._provide})
            else:
                stage(self._report)
                self._provide(self._report)
            self._prepare(member)
            if self._plan.prepare:  # The preparation may have installed the launcher.
                self._processes.check_launcher()
        finally:
            self._log.finish(_LOGS_TIMEOUT_S)

    def _provide(self, say: Say) -> None:
        """Provides the environment or container of the ranks. Progress is reported only where something is built or
        fetched.
        """

        def say_building(message: str) -> None:
            self._reports.building()
            say(message)

        try:
            self._processes.provide(self._node_tasks, self._log, say_building)
            if not self._plan.prepare:
                self._processes.check_launcher()
        finally:
            self._reports.built()

    # --- side by side -------------------------------------------------------------------------------------------------
    def _side_by_side(self, works: dict[str, Callable[[Say], None]]) -> None:
        """Runs each in a thread. If one fails, the others end by themselves or with the agent."""
        ended: queue.SimpleQueue[Exception | None] = queue.SimpleQueue()
        for name, work in works.items():
            threading.Thread(target=self._do, args=(name, work, ended), name=name, daemon=True).start()
        for _ in works:
            if error := ended.get():
                raise error

    def _do(self, name: str, work: Callable[[Say], None], ended: queue.SimpleQueue[Exception | None]) -> None:
        try:
            work(lambda sentence: self._say(name, sentence))
        except Exception as error:  # noqa: BLE001 (it is raised in the waiting thread)
            ended.put(error)
        else:
            self._say(name, "")
            ended.put(None)

    def _say(self, name: str, message: str) -> None:
        self._progress[name] = message
        self._report("; ".join(message for message in list(self._progress.values()) if message))

    # --- the job's own preparation ------------------------------------------------------------------------------------
    def _prepare(self, member: Member) -> None:
        """Runs the preparation once in an attempt, and again if it was interrupted or the machine restarted."""
        mark = f"{self._root}/{completion_marks.PREPARED}"
        spec = self._processes.preparation(member, self._log.round)
        if spec is None or completion_marks.is_put(mark):
            return
        self._log.say("running the job's preparation")
        at = self._log.size()
        command = TaskCommand(
            spec.argv,
            spec.cwd,
            spec.environment(os.environ),
            self._log.path,
            grace_s=self._plan.grace_s,
            confinement=self._processes.confinement,
            meanwhile=lambda: self._report(f"preparation: {self._log.last_line(at)[:120]}"),
        )
        self._report("preparation")
        code = self._node_tasks.run("preparation", command)
        if code:
            raise RefusedError(_failed(code, self._log.last_line(at)))
        self._note(mark)

    def _note(self, mark: str) -> None:
        try:
            completion_marks.put(mark)
        except OSError as error:
            raise StorageError(f"the preparation can't be recorded: {error.strerror}", where=mark) from error
        failpoint("agent.prepared")


def _failed(code: int, last: str) -> str:
    how = f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
    return f"the job's preparation {how}" + (f": {last}" if last else ", without output")

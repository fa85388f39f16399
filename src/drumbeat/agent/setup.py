"""Brings a node to where its ranks can start: its files and what they run in, then the job's preparation."""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable

from drumbeat.agent.ground import marks
from drumbeat.agent.keeper.errands import Command, Errands
from drumbeat.agent.logs.nodelog import NodeLog
from drumbeat.agent.processes import Preparing
from drumbeat.protocol.agent import Enrolment
from drumbeat.protocol.errors import RefusedError, StorageError
from drumbeat.protocol.faults import faultpoint
from drumbeat.protocol.roster import Member

Say = Callable[[str], None]

_LOGS_S = 10.0
"""How long the server may take to have the last of a node's log, before the node goes on without that."""


class Readying:
    """Of one round. `tell` is told in words what is being done, of all that is."""

    def __init__(self, enrolment: Enrolment, preparing: Preparing, errands: Errands, log: NodeLog, tell: Say) -> None:
        self._plan, self._root = enrolment.plan, enrolment.root
        self._preparing, self._errands = preparing, errands
        self._log, self._tell = log, tell
        self._now: dict[str, str] = {}

    def run(self, member: Member, stage: Callable[[Say], None]) -> None:
        """Does it. stage: brings the files. Raises the first DrumbeatError of any part."""
        try:
            self._preparing.check()
            if self._preparing.has_much:
                self._side_by_side({"files": stage, "environment": self._provide})
            else:
                stage(self._tell)
                self._provide(self._tell)
            self._prepare(member)
        finally:
            self._log.finish(_LOGS_S)

    def _provide(self, say: Say) -> None:
        self._preparing.provide(self._errands, self._log, say)

    # --- side by side -------------------------------------------------------------------------------------------------
    def _side_by_side(self, works: dict[str, Callable[[Say], None]]) -> None:
        """Each in a thread; the others of one that fails are left to end by themselves or with the agent."""
        ended: queue.SimpleQueue[Exception | None] = queue.SimpleQueue()
        for name, work in works.items():
            threading.Thread(target=self._do, args=(name, work, ended), name=name, daemon=True).start()
        for _ in works:
            if error := ended.get():
                raise error

    def _do(self, name: str, work: Callable[[Say], None], ended: queue.SimpleQueue[Exception | None]) -> None:
        try:
            work(lambda sentence: self._say(name, sentence))
        except Exception as error:  # noqa: BLE001 (it is raised where it is waited for)
            ended.put(error)
        else:
            self._say(name, "")
            ended.put(None)

    def _say(self, name: str, sentence: str) -> None:
        self._now[name] = sentence
        self._tell("; ".join(one for one in list(self._now.values()) if one))

    # --- the job's own preparation ------------------------------------------------------------------------------------
    def _prepare(self, member: Member) -> None:
        """Once in an attempt, and again after another start of the machine. What was broken off is begun anew."""
        mark = f"{self._root}/{marks.PREPARED}"
        spec = self._preparing.preparation(member, self._log.round)
        if spec is None or marks.is_put(mark):
            return
        self._log.say("running the job's preparation")
        at = self._log.size()
        command = Command(
            spec.argv,
            spec.cwd,
            spec.environment(os.environ),
            self._log.path,
            grace_s=self._plan.grace_s,
            confinement=self._preparing.confinement,
            meanwhile=lambda: self._tell(f"preparation: {self._log.last_line(at)[:120]}"),
        )
        self._tell("preparation")
        code = self._errands.run("preparation", command)
        if code:
            raise RefusedError(_failed(code, self._log.last_line(at)))
        self._note(mark)

    def _note(self, mark: str) -> None:
        try:
            marks.put(mark)
        except OSError as error:
            raise StorageError(f"the preparation can't be noted: {error.strerror}", where=mark) from error
        faultpoint("agent.prepared")


def _failed(code: int, last: str) -> str:
    how = f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
    return f"the job's preparation {how}" + (f": {last}" if last else ", without a word")

"""A round of ranks in the supervisor: they are started, reaped and stopped, and their leftovers are ended.

SIGTERM comes first, SIGKILL after the grace time, which comes with the request: it is the job's key `grace_s`, with a
default in `jobfile/job/timeouts_and_retries.py`. `confinement.py` finds all descendants of a rank.
"""

from __future__ import annotations

import dataclasses
import os
import selectors
import signal
from collections.abc import Callable, Sequence

from drumbeat.model.failpoints import failpoint
from drumbeat.model.supervisor import ProcessStart, StartRound, StartSessions, SupervisedExit, WarmPoolOrder
from drumbeat.node.host import processes
from drumbeat.node.host.machine import boot
from drumbeat.node.supervisor.confinement import KILL_TIMEOUT_S, LEFTOVER_GRACE_S, Subreaper
from drumbeat.node.supervisor.launcher_process import Starter
from drumbeat.node.supervisor.listener import read_marker
from drumbeat.node.supervisor.liveness_pipe import LIVENESS_FILE
from drumbeat.node.supervisor.machine import SupervisorMachine
from drumbeat.node.supervisor.round_records import Records
from drumbeat.node.supervisor.sidecars import Sidecars
from drumbeat.node.supervisor.warm_pool import ENDED_FROM_OUTSIDE, WarmPool


class RankRound:
    """One round at a time: running → (stopping) → leftovers are ended → over."""

    def __init__(
        self, folder: str, machine: SupervisorMachine, selector: selectors.BaseSelector, on_change: Callable[[], None]
    ) -> None:
        """on_change: is called when the agent must be informed. Takes over the remains of a dead supervisor."""
        self.machine, self.selector, self._on_change = machine, selector, on_change
        self.records, self.segments = Records(folder), machine.segments(folder)
        self.number = -1
        self.running: dict[int, int] = {}
        self.starter, self.is_launcherless = Starter(selector), False
        self.sidecars = Sidecars()
        self.sessions: set[int] = set()
        self.exits: list[SupervisedExit] = []
        self.over, self.lost, self.is_abandoned, self.is_restarted = True, False, False, False
        self._ranks = 0
        self.kill_at: float | None = None
        self.sweep_at: float | None = None
        self.killed_at: float | None = None
        self.swept_at: float | None = None
        self.grace_s = 30.0  # Until the agent sends the job's own.
        self.trouble = ""
        self._recall(folder)
        self.confinement: Subreaper = machine.confinement(folder, read_marker(folder))
        self.warm_pool = WarmPool(folder, self.confinement.for_warm_pool(), selector, on_change, machine)
        self.confinement.spares = self.warm_pool.confinement.spares = self.warm_pool.spares
        self.warm, self.cold = list[int](), ""

    @property
    def is_stopping(self) -> bool:
        """Whether SIGTERM was sent."""
        return self.kill_at is not None

    def start(self, request: StartRound) -> None:
        """Begins a round, in warm workers where they fit."""
        number, todo, starter = request.round, request.ranks, request.starter
        self.number, self.exits, self.over, self.lost = number, [], False, False
        self.is_abandoned, self.is_restarted, self._ranks = False, False, len(todo)
        self.kill_at = self.killed_at = self.sweep_at = self.swept_at = None
        self.sessions, self.trouble, self.starter = set(), "", Starter(self.selector)
        self.sidecars = Sidecars(todo)
        self.is_launcherless = False
        try:
            # Before the first rank: if this process dies now, the next supervisor knows that a round had begun.
            self.records.write_round(number, over=False, ranks=len(todo))
            failpoint("supervisor.round_written")
            self._confine(todo, request.warm_pool)
            self.segments.open(self.machine.monotonic())
        except OSError as error:
            self._refuse(todo, error)
            return
        for rank in todo:
            self._start_rank(rank)
        self.cold = self.cold if len(self.warm) < len(todo) else ""
        self.sidecars.start_services(request.services, self.confinement)
        self.warm_pool.begin(todo, request.warm_pool, self.machine.monotonic())
        if starter is not None:
            self.starter.start(starter, todo, self.confinement)
            self.sessions |= {self.starter.command_server} - {0}
        self._on_change()

    def _confine(self, todo: Sequence[ProcessStart], order: WarmPoolOrder | None) -> None:
        """Opens the round's confinement, or takes that of its warm workers. Raises OSError."""
        is_warm, self.warm, self.cold = self.warm_pool.fits(todo, order), [], self.warm_pool.cold
        if is_warm:
            self.confinement = self.warm_pool.swap(self.confinement)
            self.confinement.resume()
        else:
            self.confinement.open()

    def _refuse(self, todo: Sequence[ProcessStart], error: OSError) -> None:
        """Ends a round before its start because it can't be recorded or confined: its end could not be known later."""
        for rank in todo:
            self._add_exit(rank.rank, 127, self.machine.now(), f"the supervisor can't begin a round: {error.strerror}")
        self.over = True
        self._record()
        self._on_change()

    def _start_rank(self, rank: ProcessStart) -> None:
        liveness = -1
        try:
            pid = self._start_warm(rank)
            if not pid:
                liveness = self.starter.open_pipe(rank)
                pid = self.machine.start(rank, self.confinement, {LIVENESS_FILE: liveness} if liveness >= 0 else {})
        except OSError as error:
            self._add_exit(rank.rank, 127, self.machine.now(), str(error.strerror))
        else:
            self.running[pid] = rank.rank
            self.sessions.add(pid)
            failpoint("supervisor.rank_forked")
        finally:
            if liveness >= 0:
                os.close(liveness)

    def _start_warm(self, rank: ProcessStart) -> int:
        """Returns the pid of the rank's warm worker, which becomes the rank; 0 = there is none."""
        worker = self.warm_pool.take(rank.rank)
        if worker is None:
            return 0
        try:
            pid = worker.go(rank)
        except OSError:  # It was killed a moment ago.
            worker.end()
            self.cold = ENDED_FROM_OUTSIDE
            return 0
        self.warm.append(rank.rank)
        return pid

    def start_sessions(self, request: StartSessions) -> None:
        """Starts users' commands beside the ranks, while these run."""
        is_now = request.round == self.number and self.running and self.kill_at is None
        if is_now and self.sidecars.start_sessions(request.sessions, self.confinement):
            self._on_change()

    def stop(self, grace_s: float) -> None:
        """Sends SIGTERM once, but not to the launcher, which ranks need; later calls only bring SIGKILL forward."""
        if self.over:
            return
        if self.kill_at is None:
            # Processes that have already ended did so for their own reasons, and so do ranks whose launcher was killed.
            self.reap()
            self.is_launcherless = self.is_launcherless or self.starter.is_gone
            self.kill_at = self.machine.monotonic() + grace_s
            self._look_at_segments(is_last=True)
            self.confinement.ask(spared=self.starter.pid)
            self.machine.signal_all(
                [self.starter.command_server] if self.starter.command_server else [], signal.SIGTERM
            )
            self._on_change()
        self.kill_at = min(self.kill_at, self.machine.monotonic() + grace_s)

    def abandon(self) -> None:
        """Stops ranks whose agent doesn't return: their exits then say nothing about why the round failed."""
        self.stop(self.grace_s)
        if self.running and not self.is_abandoned:
            self.lost = self.is_abandoned = True
            self._record(over=False)
            self._on_change()

    def reap(self) -> None:
        """Reaps every ended child, adopted ones included, and reports the ranks among them."""
        reported, ended, is_news = len(self.exits), self.machine.ended_children(), False
        if self.starter.pid in ended:  # First: ranks that ended with the launcher are reported as such.
            self.starter.end(ended[self.starter.pid])
        at = self.machine.now()  # One time for all: recording an exit may take long, and would delay the next check.
        for pid, code in ended.items():
            if pid in self.running:
                self._add_exit(self.running.pop(pid), code, at)
            elif self.sidecars.end(pid, code):
                is_news = True
            else:
                self.warm_pool.reap(pid)
        if len(self.exits) > reported:
            self._look_at_segments(is_last=True)  # The others may end within a moment.
        if is_news or len(self.exits) > reported:
            self._on_change()

    def _add_exit(self, rank: int, code: int, at: float, error: str = "") -> None:
        ended = SupervisedExit(
            rank=rank,
            code=code if code >= 0 else None,
            signal=-code if code < 0 else None,
            at=at,
            order=len(self.exits) + 1,
            is_stopped=self.kill_at is not None and not self.is_launcherless,
            error=error,
        )
        if not ended.is_stopped:
            ended = dataclasses.replace(ended, **self.starter.part_in(rank, code, self.machine.monotonic()))
        self.exits.append(ended)
        try:
            self.records.add_exit(self.number, ended)
            failpoint("supervisor.exit_written")
        except OSError as failure:
            self.trouble = f"the exits can't be recorded: {failure}"

    def end_what_must_end(self) -> None:
        """Proceeds to SIGKILL, to the ranks' leftovers and to the end of the round, as each is due."""
        now = self.machine.monotonic()
        if self.over:
            return
        if self.running:
            if self.kill_at is None and (
                self.starter.is_missed(now) or self.starter.has_ended(self.running.values(), now)
            ):
                self.is_launcherless = True
                self.stop(self.grace_s)
            is_due = self.kill_at is not None and now >= self.kill_at
            self._look_at_segments(is_last=is_due)
            if is_due:
                self.confinement.kill()
                self.killed_at = self.killed_at or now
                if _is_hopeless(self.killed_at, now):
                    self._give_up()
            return
        if self.starter.pid and self.kill_at is None:
            return  # It ends when the ranks of all nodes have ended.
        left = self.confinement.members()
        if self.starter.pid and self.starter.pid not in left:
            return  # It has just ended: waiting for an unreaped process would be in vain.
        if not left or _is_hopeless(self.swept_at, now):
            self._finish(left)
        else:
            self._sweep(left, now)

    def _give_up(self) -> None:
        """Counts ranks that survive SIGKILL as ended: the signal stays pending, so they can't continue."""
        stuck, at = sorted(self.running), self.machine.now()
        while self.running:
            self._add_exit(self.running.pop(min(self.running)), -signal.SIGKILL, at)
        self._finish(sorted({*stuck, *self.confinement.members()}))

    def _sweep(self, left: list[int], now: float) -> None:
        """Ends the ranks' leftovers: those in a rank's session within the grace time, others soon."""
        if self.sweep_at is None:
            self.sweep_at = now + LEFTOVER_GRACE_S
            self.confinement.ask(helpers=True, spared=self.starter.command_server)
        stayed = self.kill_at is not None and any(self.machine.session(pid) in self.sessions for pid in left)
        if now >= (self.kill_at if stayed and self.kill_at is not None else self.sweep_at):
            self.confinement.kill()
            self.swept_at = self.swept_at or now

    def _look_at_segments(self, *, is_last: bool = False) -> None:
        if not self.over:
            self.segments.look(self.confinement.members, self.machine.monotonic(), is_last=is_last)

    def _finish(self, left: list[int]) -> None:
        self.over = True
        if left:
            self.trouble = processes.describe_unkillable(left)
        self._record()
        failpoint("supervisor.over_written")
        self.confinement.close(is_empty=not left)
        self.starter.close()
        is_clean = all(ended.code == 0 and not ended.is_stopped for ended in self.exits)
        self.segments.close(is_clean=is_clean)
        if not left:
            self.warm_pool.settle(self.machine.monotonic(), is_clean=is_clean)
        self._on_change()

    def retire(self, folder: str) -> None:
        """Drops the last round, and continues in another folder with the warm workers."""
        self.move(folder)
        self.number, self.exits, self.warm, self.cold = -1, [], [], ""
        if not self.warm_pool.pids:
            self.warm_pool.cold = ""

    def move(self, folder: str) -> None:
        """Continues in the supervisor's new folder."""
        self.records, self.segments = Records(folder), self.machine.segments(folder)
        self.confinement.move(folder)
        self.warm_pool.move(folder)

    def _record(self, *, over: bool = True) -> None:
        """Records that the round is over, or abandoned."""
        try:
            self.records.write_round(
                self.number, over=over, lost=self.lost, abandoned=self.is_abandoned, ranks=self._ranks,
                is_restarted=self.is_restarted,
            )  # fmt: skip
        except OSError as failure:
            self.trouble = f"the round can't be recorded: {failure}"

    def _recall(self, folder: str) -> None:
        """Takes over from a dead supervisor: kills its remaining processes; a round with ranks whose end is unknown is
        lost.
        """
        self.machine.end_rest(folder)
        record = self.records.read_round()
        if record is None:
            return
        self.number, self.lost = record["round"], record["lost"]
        self.is_abandoned, self._ranks = record.get("abandoned", False), record["ranks"]
        self.is_restarted = record.get("restarted", False)
        self.exits = self.records.read_exits(self.number)
        if not record["over"]:
            self.lost = self.is_abandoned or len(self.exits) < record["ranks"]
            # Supervisors of earlier versions didn't record their boot.
            is_of_this_boot = record.get("boot", boot()) == boot()
            self.is_restarted = self.lost and not self.is_abandoned and not is_of_this_boot
            self._record()

    def is_ending(self, now: float) -> bool:
        """Whether leftovers are being ended, which requires checks every few milliseconds."""
        is_sweeping = not self.running and not (self.starter.pid and self.kill_at is None)
        return not self.over and (is_sweeping or (self.kill_at is not None and now >= self.kill_at))

    def waits_s(self, now: float) -> list[float]:
        """Returns the seconds until its next actions are due, even without events."""
        waits: list[float] = []
        if not self.over and self.kill_at is not None:
            waits.append(self.kill_at - now)
        elif not self.over and self.running:
            waits += self.starter.due_s(now)
        if not self.over and self.running:
            waits.append(self.segments.due_s(now))
            due_s = self.warm_pool.due_s(now) if self.kill_at is None else None
            waits += [] if due_s is None else [due_s]
        return waits


def _is_hopeless(killed_at: float | None, now: float) -> bool:
    return killed_at is not None and now > killed_at + KILL_TIMEOUT_S

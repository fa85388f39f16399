"""The keeper: starts the ranks of a round, holds on to all that comes of them, and ends them.

One per node and attempt, one thread, apart from the agent, so that either can die without the other. Started as
`python -m drumbeat.agent.keeper.keeper FOLDER`; the agent speaks to it over FOLDER/keeper.sock (`protocol.keeper`).
Requests are idempotent, and what the keeper sends is always its whole state.

The time between SIGTERM and SIGKILL comes with each request: it is the job's key `grace_s`, and how long a keeper waits
for a lost agent its `lost_after_s`. Their defaults are in `dialect/job/timeouts_and_retries.py`.
"""

from __future__ import annotations

import dataclasses
import os
import signal
import sys
from collections.abc import Sequence

from drumbeat.agent.keeper.companions import Companions
from drumbeat.agent.keeper.launcher_process import Starter
from drumbeat.agent.keeper.leftover_processes import ENDING_INTERVAL_S, KILL_TIMEOUT_S, LEFTOVER_GRACE_S
from drumbeat.agent.keeper.listener import hold_folder, read_marker
from drumbeat.agent.keeper.liveness import LIVENESS_FILE
from drumbeat.agent.keeper.machine import MACHINE, KeeperMachine
from drumbeat.agent.keeper.records import Records
from drumbeat.agent.keeper.standbys import ENDED_FROM_OUTSIDE, Standbys
from drumbeat.host import processes
from drumbeat.protocol.fault_points import faultpoint
from drumbeat.protocol.keeper import (
    Adopt,
    KeeperRequest,
    KeeperState,
    KeptExit,
    LeaveNode,
    Patience,
    Probe,
    ProcessStart,
    Retire,
    StandbyOrder,
    StartRound,
    StartSessions,
    StopRound,
    decode_request,
    encode_state,
)

SPARE_CHECK_INTERVAL_S = 5.0
"""How often a spare keeper looks at the memory."""
FIRST_PATIENCE_S = 60.0
"""How long the keeper waits for its first agent."""


class Keeper:
    """One round at a time: running → (stopping) → what is left is ended → over."""

    def __init__(self, folder: str, machine: KeeperMachine = MACHINE) -> None:
        self.machine = machine
        self.folder, self.records, self.segments = folder, Records(folder), machine.segments(folder)
        self.retirement: Retire | None = None
        self.is_spare, self.spare_until = False, 0.0
        self.place = os.stat(folder)
        """The keeper's folder, whatever its path."""
        self.number = -1
        self.running: dict[int, int] = {}
        self.selector = machine.selector()
        self.starter, self.is_launcherless = Starter(self.selector), False
        self.companions = Companions()
        self.sessions: set[int] = set()
        self.exits: list[KeptExit] = []
        self.over, self.lost = True, False
        self.kill_at: float | None = None
        self.sweep_at: float | None = None
        self.killed_at: float | None = None
        self.swept_at: float | None = None
        self.leaving = False
        self.patience_s, self.grace_s = FIRST_PATIENCE_S, 30.0
        self.trouble = ""
        self._recall(folder)
        marker = read_marker(folder)
        self.confinement = machine.confinement(folder, marker)
        self.standbys = Standbys(folder, self.confinement.of_pool(), self.selector, self._on_standbys, machine)
        self.confinement.spares = self.standbys.confinement.spares = self.standbys.spares
        self.warm, self.cold = list[int](), ""
        self.listener = machine.listener(
            folder, self.selector, lambda line: self.obey(decode_request(line)), lambda: encode_state(self.state())
        )
        self.signals = machine.signals(self.selector)

    def run(self) -> None:
        """Works until it was asked to leave, or its agent has been gone for too long, and nothing is left.

        With interpreters that another job may want it goes on as a spare one.
        """
        while self.goes_on():
            self.work()
        self.end()

    def goes_on(self) -> bool:
        """Whether the keeper has an attempt, or waits for one as a spare keeper."""
        return not (self.leaving and self.over) or self._retire()

    def work(self) -> None:
        """Waits until there is something to do, and does it."""
        self.listener.serve(self._pause_s())
        self._read_signals()
        self._reap()
        self._look_after_agent()
        self._end_what_must_end()
        if self.running and self.kill_at is None:
            self.standbys.look(self.running, self.machine.monotonic())
        elif self.is_spare:
            self._look_spare()
        else:
            self.standbys.look_between(self.machine.monotonic())

    def end(self) -> None:
        """Ends what was prepared; the process ends after it."""
        self.standbys.close()
        if self.is_spare:
            from drumbeat.agent.keeper import spares

            spares.remove(self.folder)
        faultpoint("keeper.leaving")

    def state(self) -> KeeperState:
        """Returns all that an agent needs to know."""
        return KeeperState(
            pid=self.machine.pid,
            round=self.number,
            running=tuple(sorted(self.running.values())),
            exits=tuple(self.exits),
            over=self.over,
            stopping=self.kill_at is not None,
            lost=self.lost,
            trouble=self.trouble,
            held_by=self.confinement.way,
            warm=tuple(self.warm),
            cold=self.cold,
            standbys=self.standbys.ready,
            companions=self.companions.names,
            companion_exits=self.companions.exits,
        )

    def obey(self, request: KeeperRequest | None) -> None:
        """Does what the agent asks for. A request for another round than the present one changes nothing."""
        if self.is_spare:
            self._obey_as_spare(request)
            return
        match request:
            case StartRound(round=number) if number > self.number and self.over:
                self._start(request)
            case StartSessions(round=number) if number == self.number and self.running and self.kill_at is None:
                if self.companions.start_sessions(request.sessions, self.confinement):
                    self.listener.send_state()
            case StopRound(round=number) if number == self.number:
                self._stop(request.grace_s)
            case LeaveNode(is_spare=False):
                self.leaving = True
                self._stop(request.grace_s)
            case Patience():
                self.patience_s, self.grace_s = request.lost_after_s, request.grace_s
            case Retire():
                self.retirement = request
            case Probe():
                self.listener.send_state()
            case _:
                pass

    def _obey_as_spare(self, request: KeeperRequest | None) -> None:
        """Does what is for a spare keeper. Its agent of before, or one that lost the race for it, may still speak."""
        match request:
            case Adopt() if not self.leaving and self._is_in(request.folder):
                self._move(request.folder)
                self.is_spare = False
            case LeaveNode(is_spare=True):
                self.leaving = True
            case Probe():
                self.listener.send_state()
            case _:
                pass

    def _is_in(self, folder: str) -> bool:
        """Whether the folder of this spare keeper has that path now."""
        try:
            return os.path.samestat(os.stat(folder), self.place)
        except OSError:
            return False

    def _start(self, request: StartRound) -> None:
        number, todo, starter = request.round, request.ranks, request.starter
        self.number, self.exits, self.over, self.lost = number, [], False, False
        self.kill_at = self.killed_at = self.sweep_at = self.swept_at = None
        self.sessions, self.trouble, self.starter = set(), "", Starter(self.selector)
        self.companions = Companions(todo)
        self.is_launcherless = False
        try:
            # Before the first rank: if this process dies now, the next keeper knows that a round was begun.
            self.records.write_round(number, over=False, ranks=len(todo))
            faultpoint("keeper.round_written")
            self._confine(todo, request.standbys)
            self.segments.open(self.machine.monotonic())
        except OSError as error:
            self._refuse(todo, error)
            return
        for rank in todo:
            self._start_rank(rank)
        self.cold = self.cold if len(self.warm) < len(todo) else ""
        self.companions.start_services(request.services, self.confinement)
        self.standbys.begin(todo, request.standbys, self.machine.monotonic())
        if starter is not None:
            self.starter.start(starter, todo, self.confinement)
            self.sessions |= {self.starter.command_server} - {0}
        self.listener.send_state()

    def _confine(self, todo: Sequence[ProcessStart], order: StandbyOrder | None) -> None:
        """Opens the round's confinement, or takes the one in which its interpreters are. Raises OSError."""
        is_warm, self.warm, self.cold = self.standbys.fits(todo, order), [], self.standbys.cold
        if is_warm:
            self.confinement = self.standbys.swap(self.confinement)
            self.confinement.resume()
        else:
            self.confinement.open()

    def _refuse(self, todo: Sequence[ProcessStart], error: OSError) -> None:
        """Ends a round that can't be recorded or confined before it begins: its end could not be known later."""
        for rank in todo:
            self._add_exit(rank.rank, 127, self.machine.now(), f"the keeper can't begin a round: {error.strerror}")
        self.over = True
        self._record()
        self.listener.send_state()

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
            faultpoint("keeper.rank_forked")
        finally:
            if liveness >= 0:
                os.close(liveness)

    def _start_warm(self, rank: ProcessStart) -> int:
        """Returns the pid of the rank's prepared interpreter, which is the rank now; 0 = there is none."""
        standby = self.standbys.take(rank.rank)
        if standby is None:
            return 0
        try:
            pid = standby.go(rank)
        except OSError:  # It was killed a moment ago.
            standby.end()
            self.cold = ENDED_FROM_OUTSIDE
            return 0
        self.warm.append(rank.rank)
        return pid

    def _stop(self, grace_s: float) -> None:
        """Sends SIGTERM once, not to the launcher, which ranks need; later calls only bring SIGKILL nearer."""
        if self.over:
            return
        if self.kill_at is None:
            # What has ended already did so for reasons of its own, and so do ranks whose launcher was killed.
            self._reap()
            self.is_launcherless = self.is_launcherless or self.starter.is_gone
            self.kill_at = self.machine.monotonic() + grace_s
            self._look_at_segments(is_last=True)
            self.confinement.ask(spared=self.starter.pid)
            self.machine.signal_all(
                [self.starter.command_server] if self.starter.command_server else [], signal.SIGTERM
            )
            self.listener.send_state()
        self.kill_at = min(self.kill_at, self.machine.monotonic() + grace_s)

    def _reap(self) -> None:
        """Takes every ended child, orphans that this process adopted too, and reports the ranks among them."""
        reported, ended, is_news = len(self.exits), self.machine.ended_children(), False
        if self.starter.pid in ended:  # First: ranks that ended with it are reported as such.
            self.starter.end(ended[self.starter.pid])
        at = self.machine.now()  # Of all: writing one down may take long, and would make the next look late.
        for pid, code in ended.items():
            if pid in self.running:
                self._add_exit(self.running.pop(pid), code, at)
            elif self.companions.end(pid, code):
                is_news = True
            else:
                self.standbys.reap(pid)
        if len(self.exits) > reported:
            self._look_at_segments(is_last=True)  # The others can end within a moment.
        if is_news or len(self.exits) > reported:
            self.listener.send_state()

    def _add_exit(self, rank: int, code: int, at: float, error: str = "") -> None:
        ended = KeptExit(
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
            faultpoint("keeper.exit_written")
        except OSError as failure:
            self.trouble = f"the exits can't be written down: {failure}"

    def _look_after_agent(self) -> None:
        if not self.leaving and self.listener.alone_s() > self.patience_s:
            self.leaving = True
            self._stop(self.grace_s)

    def _end_what_must_end(self) -> None:
        now = self.machine.monotonic()
        if self.over:
            return
        if self.running:
            if self.kill_at is None and (
                self.starter.is_missed(now) or self.starter.has_ended(self.running.values(), now)
            ):
                self.is_launcherless = True
                self._stop(self.grace_s)
            is_due = self.kill_at is not None and now >= self.kill_at
            self._look_at_segments(is_last=is_due)
            if is_due:
                self.confinement.kill()
                self.killed_at = self.killed_at or now
                if _is_hopeless(self.killed_at, now):
                    self._give_up()
            return
        if self.starter.pid and self.kill_at is None:
            return  # It ends when the ranks of all nodes have.
        left = self.confinement.members()
        if self.starter.pid and self.starter.pid not in left:
            return  # It has ended just now: what isn't reaped yet would be waited for in vain.
        if not left or _is_hopeless(self.swept_at, now):
            self._finish(left)
        else:
            self._sweep(left, now)

    def _give_up(self) -> None:
        """Counts ranks that SIGKILL doesn't end as ended: the signal stays pending, so they can't go on."""
        stuck, at = sorted(self.running), self.machine.now()
        while self.running:
            self._add_exit(self.running.pop(min(self.running)), -signal.SIGKILL, at)
        self._finish(sorted({*stuck, *self.confinement.members()}))

    def _sweep(self, left: list[int], now: float) -> None:
        """Ends what ranks left behind: in the grace time what stayed in its rank's session, else soon."""
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
            self.trouble = processes.say_unkillable(left)
        self._record()
        faultpoint("keeper.over_written")
        self.confinement.close(is_empty=not left)
        self.starter.close()
        is_clean = all(ended.code == 0 and not ended.is_stopped for ended in self.exits)
        self.segments.close(is_clean=is_clean)
        if is_clean:
            self.standbys.settle()
        self.listener.send_state()

    def _retire(self) -> bool:
        """Becomes a spare keeper if it was asked to and has interpreters that are ready; returns whether it has."""
        wanted, self.retirement = self.retirement, None
        if wanted is None or self.trouble or not self.standbys.keep_ready():
            return False
        from drumbeat.agent.keeper import spares  # Later: most keepers never retire.

        try:
            self.records.clear()
            spares.place(self.folder, wanted.folder, self.standbys, self.machine)
        except OSError:  # Another file system, a full disk: the next job starts cold.
            return False
        self._move(wanted.folder)
        self.number, self.exits, self.warm, self.cold = -1, [], [], ""
        self.leaving, self.is_spare, self.patience_s = False, True, wanted.idle_s
        self.spare_until = self.machine.monotonic() + wanted.idle_s
        self.listener.dismiss()
        return True

    def _move(self, folder: str) -> None:
        self.folder, self.records, self.segments = folder, Records(folder), self.machine.segments(folder)
        self.confinement.move(folder)
        self.standbys.move(folder)

    def _look_spare(self) -> None:
        from drumbeat.agent.keeper import spares

        self.standbys.look_spare()
        is_old = self.machine.monotonic() >= self.spare_until
        if is_old or not self.standbys.ready or spares.is_surplus(self.folder, self.machine):
            self.leaving = True

    def _on_standbys(self) -> None:
        self.listener.send_state()

    def _record(self) -> None:
        """Writes that the round is over."""
        try:
            self.records.write_round(self.number, over=True, lost=self.lost)
        except OSError as failure:
            self.trouble = f"the round can't be written down: {failure}"

    def _recall(self, folder: str) -> None:
        """Takes over from a keeper that died: kills what it left; a round with ranks whose end is unknown is lost."""
        self.machine.end_rest(folder)
        record = self.records.read_round()
        if record is None:
            return
        self.number, self.lost = record["round"], record["lost"]
        self.exits = self.records.read_exits(self.number)
        if not record["over"]:
            self.lost = len(self.exits) < record["ranks"]
            self._record()

    def _pause_s(self) -> float | None:
        """Returns the seconds to sleep when nothing happens, None = without limit."""
        now = self.machine.monotonic()
        is_sweeping = not self.running and not (self.starter.pid and self.kill_at is None)
        if not self.over and (is_sweeping or (self.kill_at is not None and now >= self.kill_at)):
            return ENDING_INTERVAL_S
        waits = [self.patience_s - self.listener.alone_s()] if self.listener.is_alone and not self.leaving else []
        if not self.over and self.kill_at is not None:
            waits.append(self.kill_at - now)
        elif not self.over and self.running:
            waits += self.starter.due_s(now)
        if not self.over and self.running:
            waits.append(self.segments.due_s(now))
            due_s = self.standbys.due_s(now) if self.kill_at is None else None
            waits += [] if due_s is None else [due_s]
        if self.is_spare:
            waits.append(SPARE_CHECK_INTERVAL_S)
        elif self.standbys.pids and (not self.running or self.kill_at is not None):
            waits.append(self.standbys.due_between_s(now))
        return max(0.0, min(waits)) + 0.001 if waits else None

    def _read_signals(self) -> None:
        for number in self.signals.read():
            if number == signal.SIGTERM:
                self._stop(self.grace_s)


def _is_hopeless(killed_at: float | None, now: float) -> bool:
    return killed_at is not None and now > killed_at + KILL_TIMEOUT_S


def main() -> int:
    """Runs a keeper in the folder given as the only argument, unless another keeper holds it."""
    folder = os.path.abspath(sys.argv[1])
    os.chdir("/")
    if hold_folder(folder, tries=30) is None:
        print(f"keeper: another one holds {folder}", file=sys.stderr)  # noqa: T201
        return 75
    Keeper(folder).run()
    return 0


if __name__ == "__main__":
    sys.exit(main())

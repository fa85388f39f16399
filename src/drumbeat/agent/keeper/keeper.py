"""The keeper: starts the ranks of a round, holds on to all that comes of them, and ends them.

One per node and attempt, one thread, apart from the agent, so that either can die without the other. Started as
`python -m drumbeat.agent.keeper.keeper FOLDER`; the agent speaks to it over FOLDER/keeper.sock in lines of JSON
(listener.py).
What it is told (`start`, `stop`, `leave`, `patience`) may be said twice; what it tells is always all that it knows.
"""

from __future__ import annotations

import os
import selectors
import signal
import sys
import time
from typing import Any

from drumbeat.agent.keeper import ranks
from drumbeat.agent.keeper.confinement import choose, end_rest
from drumbeat.agent.keeper.listener import Door, hold_folder, read_marker
from drumbeat.agent.keeper.records import Exit, Records
from drumbeat.agent.keeper.shared_memory import Segments
from drumbeat.agent.keeper.signals import Bell
from drumbeat.agent.keeper.starter import Starter
from drumbeat.host import processes
from drumbeat.protocol.faults import faultpoint

LINGER_S = 1.0
"""How long what a round leaves behind has between SIGTERM and SIGKILL."""
GIVE_UP_S = 10.0
"""How long after SIGKILL a process that can't be killed (a disk that hangs) is waited for."""
PULSE_S = 0.03
"""How often something that is being ended is looked at."""
FIRST_PATIENCE_S = 60.0
"""How long the first word of an agent is waited for."""


class Keeper:
    """One round at a time: running → (stopping) → what is left is ended → over."""

    def __init__(self, folder: str) -> None:
        self.records, self.segments = Records(folder), Segments(folder)
        self.number = -1
        self.running: dict[int, int] = {}
        self.selector = selectors.DefaultSelector()
        self.starter, self.is_launcherless = Starter(self.selector), False
        self.sessions: set[int] = set()
        self.exits: list[Exit] = []
        self.over, self.lost = True, False
        self.kill_at: float | None = None
        self.sweep_at: float | None = None
        self.killed_at: float | None = None
        self.swept_at: float | None = None
        self.leaving = False
        self.patience_s, self.grace_s = FIRST_PATIENCE_S, 30.0
        self.trouble = ""
        self._recall(folder)
        self.confinement = choose(folder, read_marker(folder))
        self.door = Door(folder, self.selector, self.obey, self.state)
        self.bell = Bell(self.selector)

    def run(self) -> None:
        """Until it has been told to leave, or its agent has been gone for too long, and nothing is left."""
        while not (self.leaving and self.over):
            self.door.serve(self._pause_s())
            self._drain_bell()
            self._reap()
            self._look_after_agent()
            self._end_what_must_end()
        faultpoint("keeper.leaving")

    def state(self) -> dict[str, Any]:
        """All that an agent needs to know."""
        return {
            "pid": os.getpid(),
            "round": self.number,
            "running": sorted(self.running.values()),
            "exits": self.exits,
            "over": self.over,
            "stopping": self.kill_at is not None,
            "lost": self.lost,
            "trouble": self.trouble,
            "held_by": self.confinement.way,
        }

    def obey(self, message: dict[str, Any]) -> None:
        """Does what the agent says. What belongs to another round than the present one changes nothing."""
        match message:
            case {"do": "start", "round": int(number)} if number > self.number and self.over:
                self._start(number, message["ranks"], message.get("starter"))
            case {"do": "stop", "round": int(number), "grace_s": grace_s} if number == self.number:
                self._stop(float(grace_s))
            case {"do": "leave", "grace_s": grace_s}:
                self.leaving = True
                self._stop(float(grace_s))
            case {"do": "patience", "lost_after_s": lost_after_s, "grace_s": grace_s}:
                self.patience_s, self.grace_s = float(lost_after_s), float(grace_s)
            case {"do": "ping"}:
                self.door.tell()
            case _:
                pass

    def _start(self, number: int, todo: list[dict[str, Any]], starter: dict[str, Any] | None) -> None:
        self.number, self.exits, self.over, self.lost = number, [], False, False
        self.kill_at = self.killed_at = self.sweep_at = self.swept_at = None
        self.sessions, self.trouble, self.starter = set(), "", Starter(self.selector)
        self.is_launcherless = False
        try:
            # Before the first rank: if this process dies now, the next keeper knows that a round was begun.
            self.records.write_round(number, over=False, ranks=len(todo))
            faultpoint("keeper.round_written")
            self.confinement.open()
            self.segments.open(time.monotonic())
        except OSError as error:
            self._refuse(todo, error)
            return
        for rank in todo:
            self._start_rank(rank)
        if starter is not None:
            self.starter.start(starter, todo, self.confinement)
            self.sessions |= {self.starter.door} - {0}
        self.door.tell()

    def _refuse(self, todo: list[dict[str, Any]], error: OSError) -> None:
        """A round that can't be written down or held on to isn't begun: nobody could say later what became of it."""
        for rank in todo:
            self._add_exit(rank["rank"], 127, time.time(), f"the keeper can't begin a round: {error.strerror}")
        self.over = True
        self._record()
        self.door.tell()

    def _start_rank(self, rank: dict[str, Any]) -> None:
        rope = -1
        try:
            rope = self.starter.rope_to(rank)
            pid = ranks.start(rank, self.confinement, rope)
        except OSError as error:
            self._add_exit(rank["rank"], 127, time.time(), str(error.strerror))
        else:
            self.running[pid] = rank["rank"]
            self.sessions.add(pid)
            faultpoint("keeper.rank_forked")
        finally:
            if rope >= 0:
                os.close(rope)

    def _stop(self, grace_s: float) -> None:
        """SIGTERM once, not to the launcher, which ranks need to the end; a later word only brings SIGKILL nearer."""
        if self.over:
            return
        if self.kill_at is None:
            # What has ended already did so for reasons of its own, and so do ranks whose launcher was killed.
            self._reap()
            self.is_launcherless = self.is_launcherless or self.starter.is_gone
            self.kill_at = time.monotonic() + grace_s
            self._look_at_segments(is_last=True)
            self.confinement.ask(spared=self.starter.pid)
            processes.signal_all([self.starter.door] if self.starter.door else [], signal.SIGTERM)
            self.door.tell()
        self.kill_at = min(self.kill_at, time.monotonic() + grace_s)

    def _reap(self) -> None:
        """Takes every ended child, the orphans that fell to this process too, and tells of the ranks among them."""
        told, ended = len(self.exits), dict(processes.ended_children())
        if self.starter.pid in ended:  # First: ranks that ended with it are told as such.
            self.starter.end(ended[self.starter.pid])
        at = time.time()  # Of all: writing one down may take long, and would make the next look late.
        for pid, code in ended.items():
            if pid in self.running:
                self._add_exit(self.running.pop(pid), code, at)
        if len(self.exits) > told:
            self._look_at_segments(is_last=True)  # The others can end within a moment.
            self.door.tell()

    def _add_exit(self, rank: int, code: int, at: float, error: str = "") -> None:
        ended: Exit = {
            "rank": rank,
            "code": code if code >= 0 else None,
            "signal": -code if code < 0 else None,
            "at": at,
            "order": len(self.exits) + 1,
            "told": self.kill_at is not None and not self.is_launcherless,
            "error": error,
        }
        if not ended["told"]:
            ended |= self.starter.part_in(rank, code, time.monotonic())
        self.exits.append(ended)
        try:
            self.records.add_exit(self.number, ended)
            faultpoint("keeper.exit_written")
        except OSError as failure:
            self.trouble = f"the exits can't be written down: {failure}"

    def _look_after_agent(self) -> None:
        if not self.leaving and self.door.alone_s() > self.patience_s:
            self.leaving = True
            self._stop(self.grace_s)

    def _end_what_must_end(self) -> None:
        now = time.monotonic()
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
        """The ranks that SIGKILL doesn't end hold nobody up any longer: whatever they come back to, they die of it."""
        stuck, at = sorted(self.running), time.time()
        while self.running:
            self._add_exit(self.running.pop(min(self.running)), -signal.SIGKILL, at)
        self._finish(sorted({*stuck, *self.confinement.members()}))

    def _sweep(self, left: list[int], now: float) -> None:
        """Ends what the ranks left behind: in the grace time what stayed with its rank, else within LINGER_S."""
        if self.sweep_at is None:
            self.sweep_at = now + LINGER_S
            self.confinement.ask(helpers=True, spared=self.starter.door)
        stayed = self.kill_at is not None and any(processes.session(pid) in self.sessions for pid in left)
        if now >= (self.kill_at if stayed and self.kill_at is not None else self.sweep_at):
            self.confinement.kill()
            self.swept_at = self.swept_at or now

    def _look_at_segments(self, *, is_last: bool = False) -> None:
        if not self.over:
            self.segments.look(self.confinement.members, time.monotonic(), is_last=is_last)

    def _finish(self, left: list[int]) -> None:
        self.over = True
        if left:
            self.trouble = processes.say_unkillable(left)
        self._record()
        faultpoint("keeper.over_written")
        self.confinement.close(is_empty=not left)
        self.starter.close()
        self.segments.close(is_clean=all(ended["code"] == 0 and not ended["told"] for ended in self.exits))
        self.door.tell()

    def _record(self) -> None:
        """The round is over."""
        try:
            self.records.write_round(self.number, over=True, lost=self.lost)
        except OSError as failure:
            self.trouble = f"the round can't be written down: {failure}"

    def _recall(self, folder: str) -> None:
        """Takes up where a keeper died: what it left is killed; a round with ranks that nobody saw end is lost."""
        end_rest(folder)
        known = self.records.read_round()
        if known is None:
            return
        self.number, self.lost = known["round"], known["lost"]
        self.exits = self.records.read_exits(self.number)
        if not known["over"]:
            self.lost = len(self.exits) < known["ranks"]
            self._record()

    def _pause_s(self) -> float | None:
        """Seconds to sleep when nothing happens."""
        now = time.monotonic()
        is_sweeping = not self.running and not (self.starter.pid and self.kill_at is None)
        if not self.over and (is_sweeping or (self.kill_at is not None and now >= self.kill_at)):
            return PULSE_S
        waits = [self.patience_s - self.door.alone_s()] if self.door.is_alone and not self.leaving else []
        if not self.over and self.kill_at is not None:
            waits.append(self.kill_at - now)
        elif not self.over and self.running:
            waits += self.starter.due_s(now)
        if not self.over and self.running:
            waits.append(self.segments.due_s(now))
        return max(0.0, min(waits)) + 0.001 if waits else None

    def _drain_bell(self) -> None:
        for number in self.bell.heard():
            if number == signal.SIGTERM:
                self._stop(self.grace_s)


def _is_hopeless(killed_at: float | None, now: float) -> bool:
    return killed_at is not None and now > killed_at + GIVE_UP_S


def main() -> int:
    """Holds the folder given as the only argument, unless another keeper does."""
    folder = os.path.abspath(sys.argv[1])
    os.chdir("/")
    if hold_folder(folder, tries=30) is None:
        print(f"keeper: another one holds {folder}", file=sys.stderr)  # noqa: T201
        return 75
    Keeper(folder).run()
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""The supervisor: starts the ranks of a round, holds all their descendants, and ends them.

There is one per node and attempt, with one thread, separate from the agent, so that either can die without the other.
It is started as `python -m drumbeat.node.supervisor.supervisor FOLDER`; the agent talks to it over FOLDER/keeper.sock
(`model.supervisor`). Requests are idempotent, and the supervisor always sends its whole state.

`rank_round.py` has the round of ranks, `spare_supervisor.py` the time after its attempt. How long it waits for an
absent agent is the job's key `lost_after_s`, and `grace_s` the time between SIGTERM and SIGKILL; both have their
defaults in `jobfile/job/timeouts_and_retries.py`.
"""

from __future__ import annotations

import os
import signal
import sys

from drumbeat.model.failpoints import failpoint
from drumbeat.model.supervisor import (
    LeaveNode,
    Probe,
    Retire,
    StartRound,
    StartSessions,
    StopRound,
    SupervisorRequest,
    SupervisorState,
    SupervisorTimeouts,
    decode_request,
    encode_state,
)
from drumbeat.node.supervisor.confinement import ENDING_INTERVAL_S
from drumbeat.node.supervisor.listener import hold_folder
from drumbeat.node.supervisor.machine import MACHINE, SupervisorMachine
from drumbeat.node.supervisor.rank_round import RankRound
from drumbeat.node.supervisor.spare_supervisor import SPARE_CHECK_INTERVAL_S, SpareSupervisor

FIRST_AGENT_TIMEOUT_S = 60.0
"""How long the supervisor waits for its first agent."""


class Supervisor:
    """The process of a node's ranks: its requests, its reports, and its lifetime."""

    def __init__(self, folder: str, machine: SupervisorMachine = MACHINE) -> None:
        self.machine = machine
        self.selector = machine.selector()
        self.round = RankRound(folder, machine, self.selector, self._send_state)
        self.spare = SpareSupervisor(folder, self.round, machine, self._send_state)
        self.leaving = False
        self.agent_timeout_s = FIRST_AGENT_TIMEOUT_S
        self.listener = machine.listener(
            folder, self.selector, lambda line: self.obey(decode_request(line)), lambda: encode_state(self.state())
        )
        self.signals = machine.signals(self.selector)

    def run(self) -> None:
        """Works until it was told to leave, or its agent has been absent for too long, and nothing is left.

        With warm workers for another job it continues as a spare supervisor.
        """
        while self.goes_on():
            self.work()
        self.end()

    def goes_on(self) -> bool:
        """Whether the supervisor has an attempt, or waits for one as a spare supervisor."""
        if self.spare.is_spare and self.spare.is_done:
            return False
        if not (self.leaving and self.round.over):
            return True
        is_awaited = self.spare.retirement is not None and self.round.warm_pool.is_beginning(self.machine.monotonic())
        return is_awaited or self._retire()

    def work(self) -> None:
        """Waits for events and handles them."""
        self.listener.serve(self._pause_s())
        self._read_signals()
        self.round.reap()
        self._check_agent()
        self.round.end_what_must_end()
        if self.round.running and not self.round.is_stopping:
            self.round.warm_pool.look(self.round.running, self.machine.monotonic())
        elif self.spare.is_spare:
            self.spare.look()
        else:
            self.round.warm_pool.look_between(self.machine.monotonic())

    def end(self) -> None:
        """Ends the warm workers; the process ends after this."""
        self.round.warm_pool.close()
        self.spare.remove()
        failpoint("supervisor.leaving")

    def state(self) -> SupervisorState:
        """Returns the whole state for the agent."""
        round_ = self.round
        return SupervisorState(
            pid=self.machine.pid,
            round=round_.number,
            running=tuple(sorted(round_.running.values())),
            exits=tuple(round_.exits),
            over=round_.over,
            stopping=round_.is_stopping,
            lost=round_.lost,
            is_abandoned=round_.is_abandoned,
            is_restarted=round_.is_restarted,
            trouble=round_.trouble,
            held_by=round_.confinement.way,
            warm=tuple(round_.warm),
            cold=round_.cold,
            warm_workers=round_.warm_pool.ready,
            preparing=round_.warm_pool.preparing,
            sidecars=round_.sidecars.names,
            sidecar_exits=round_.sidecars.exits,
        )

    def obey(self, request: SupervisorRequest | None) -> None:
        """Carries out a request of the agent. A request for a round other than the current one has no effect."""
        if self.spare.is_spare:
            self.spare.obey(request)
            return
        match request:
            case StartRound(round=number) if number > self.round.number and self.round.over:
                self.round.start(request)
            case StartSessions():
                self.round.start_sessions(request)
            case StopRound(round=number) if number == self.round.number:
                self.round.stop(request.grace_s)
            case LeaveNode(is_spare=False):
                self.leaving = True
                self.round.stop(request.grace_s)
            case SupervisorTimeouts():
                self.agent_timeout_s, self.round.grace_s = request.lost_after_s, request.grace_s
            case Retire():
                self.spare.retirement = request
            case Probe():
                self.listener.send_state()
            case _:
                pass

    def _retire(self) -> bool:
        """Becomes a spare supervisor if possible; returns whether it did."""
        if not self.spare.retire():
            return False
        self.leaving, self.agent_timeout_s = False, self.spare.idle_s
        self.listener.dismiss()
        return True

    def _check_agent(self) -> None:
        if not self.leaving and self.listener.alone_s() > self.agent_timeout_s:
            self.leaving = True
            self.round.abandon()

    def _send_state(self) -> None:
        self.listener.send_state()

    def _pause_s(self) -> float | None:
        """Returns the seconds until something is due without events, None = never."""
        now = self.machine.monotonic()
        if self.round.is_ending(now) or (self.leaving and self.round.over):
            return ENDING_INTERVAL_S
        waits = self.round.waits_s(now)
        if self.listener.is_alone and not self.leaving:
            waits.append(self.agent_timeout_s - self.listener.alone_s())
        if self.spare.is_spare:
            waits.append(SPARE_CHECK_INTERVAL_S)
        elif self.round.warm_pool.pids and (not self.round.running or self.round.is_stopping):
            waits.append(self.round.warm_pool.due_between_s(now))
        return max(0.0, min(waits)) + 0.001 if waits else None

    def _read_signals(self) -> None:
        for number in self.signals.read():
            if number == signal.SIGTERM:
                self.round.stop(self.round.grace_s)
                self.spare.is_done = True  # A supervisor with an attempt ignores this.


def main() -> int:
    """Runs a supervisor in the folder given as the only argument, unless another supervisor holds it."""
    folder = os.path.abspath(sys.argv[1])
    os.chdir("/")
    if hold_folder(folder, tries=30) is None:
        print(f"supervisor: another one holds {folder}", file=sys.stderr)  # noqa: T201
        return 75
    Supervisor(folder).run()
    return 0


if __name__ == "__main__":
    sys.exit(main())

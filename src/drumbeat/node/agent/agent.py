"""The agent: one thread that holds all state and decides, and threads beside it that wait for events.

Every thread posts its events to the inbox as calls; `run` makes the calls one by one, and after each takes the steps
that `next_step.next_step` returns. So no state needs a lock, and a lost or repeated message does no harm.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import sys
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from drumbeat.launchers import warm_start_fit
from drumbeat.model.agent import Directive, Enrolment, NodeMessage, Order, RankExit
from drumbeat.model.conditions import ConditionState, ends_alone
from drumbeat.model.errors import DrumbeatError
from drumbeat.model.failpoints import failpoint
from drumbeat.model.supervisor import ProcessStart, StartRound, SupervisedExit, SupervisorState
from drumbeat.node.agent.attempt_mounts import AttemptMounts
from drumbeat.node.agent.idle_watch import IdleWatch
from drumbeat.node.agent.inbox import Inbox
from drumbeat.node.agent.next_step import AgentAction, AttemptFacts, RoundFacts, WorkState, next_step, status
from drumbeat.node.agent.node_stager import NodeStager
from drumbeat.node.agent.node_supervisor import NodeSupervisor, outliving
from drumbeat.node.agent.request_handler import RequestHandler
from drumbeat.node.agent.round_containers import RoundContainers
from drumbeat.node.agent.round_logs import RoundLogs
from drumbeat.node.agent.round_ports import RoundPorts
from drumbeat.node.agent.round_process_specs import RoundProcesses
from drumbeat.node.agent.status_reporter import StatusReporter
from drumbeat.node.agent.takeover import next_enrolment
from drumbeat.node.agent.world_size_check import WorldCheck
from drumbeat.node.metrics.condition_states import ConditionFollower
from drumbeat.node.metrics.endpoint_supervisor import MetricsSupervisor
from drumbeat.node.platform.agent_log import Journal
from drumbeat.node.platform.pins import PinRenewal
from drumbeat.node.platform.server_link import ServerLink
from drumbeat.node.sidecars.service_statuses import ServiceStatuses
from drumbeat.node.stacks.silence import Silence, SilenceLimits, SilenceWatch
from drumbeat.node.supervisor.node_tasks import NodeTasks
from drumbeat.node.torn_files.guard import CheckpointGuard

if TYPE_CHECKING:
    from drumbeat.model.roster import Roster
    from drumbeat.node.agent.output_upload import OutputUpload

EXIT_LEFT, EXIT_CRASHED, EXIT_STALE, EXIT_TERMINATED = 0, 1, 3, 143
"""The exit codes: left on the server's order; crashed (start it again); the attempt was replaced; SIGTERM."""
_PROGRESS_INTERVAL_S = 0.5
_LAST_LOGS_S, _LAST_STATUS_S = 10.0, 2.0
"""How long the agent tries to deliver the logs, and then the last status, after SIGTERM and the end of the ranks."""
_ALONE_AFTER_S = 15.0
"""How long the agent waits for the server's order once a condition ends the job, before it stops its ranks by itself.
The server stops those of all nodes at once, which is better, and may be started again just now."""


class Agent:
    """Runs one node's part in one attempt."""

    def __init__(self, enrolment: Enrolment) -> None:
        self._enrolment, self._plan, self._root = enrolment, enrolment.plan, enrolment.root
        self._journal = Journal(f"{self._root}/agent.log")
        self._inbox = Inbox(self._on_stale)
        self._posting = self._inbox.posting
        self._facts = AttemptFacts(preflight=enrolment.preflight)
        self._wanted: Directive | None = None
        self._ports = RoundPorts(enrolment)
        self._processes = RoundProcesses(enrolment)
        self._node_tasks = NodeTasks(f"{self._root}/errands")
        self._mounts = AttemptMounts(enrolment, self._journal.note, self._posting(self._on_message))
        self._metrics = MetricsSupervisor(enrolment, self._journal.note)
        self._conditions = ConditionFollower(enrolment, self._posting(self._on_conditions))
        self._idle = IdleWatch(self._plan.conditions, enrolment.gpus, self._posting(self._on_conditions))
        self._alone: threading.Timer | None = None
        self._services = ServiceStatuses(self._plan, enrolment.node, self._root, self._mounts.remember)
        self._world_check = WorldCheck(self._plan, enrolment.node, self._mounts.remember)
        limits = SilenceLimits(self._plan.hang_after_s, self._plan.rendezvous_timeout_s)
        self._silence = SilenceWatch(limits, self._posting(self._on_silence))
        self._staging = NodeStager(
            enrolment, self._journal, self._inbox, self._processes, self._mounts, self._check_checkpoints
        )
        self._checkpoints = CheckpointGuard(enrolment, self._journal.note, self._mounts.remember)
        self._containers = RoundContainers(enrolment, self._journal, self._inbox, self._facts, self._mounts.remember)
        self._logs = RoundLogs(enrolment, self._journal)
        self._pins = PinRenewal(self._root)
        self._detail_at = 0.0
        self._exit: int | None = None
        self.next: Enrolment | None = None
        """The enrolment for the job with which this process goes on, after `run`; None = it ends."""
        self._proof = secrets.token_hex(16)
        self._facts.handover = hashlib.sha256(self._proof.encode()).hexdigest()
        self._going = False
        self._knows_past = False
        self._warm_workers = 0
        on_supervisor, on_trouble = self._posting(self._on_supervisor), self._posting(self._on_supervisor_trouble)
        self._supervisor = NodeSupervisor(
            enrolment, self._journal, self._processes.confinement, on_supervisor, on_trouble
        )
        self._supervisor.spared = partial(outliving, self._plan, self._mounts)
        requests = RequestHandler(enrolment, self._journal, self._supervisor, self._silence.idle_s)
        self._reporter = StatusReporter(
            enrolment, self._journal, self._posting(self._on_directive), self._posting(self._on_stale), requests.begin,
            self._proof,
        )  # fmt: skip
        self._do: dict[AgentAction, Callable[[], None]] = {
            AgentAction.BEGIN_ROUND: self._begin_round,
            AgentAction.STAGE: partial(self._staging.begin, self._facts, self._node_tasks, self._progress),
            AgentAction.HOLD_PORT: self._hold_port,
            AgentAction.START: self._start,
            AgentAction.STOP: self._stop,
            AgentAction.CLOSE_ROUND: self._close_round,
            AgentAction.UPLOAD: self._upload,
            AgentAction.LEAVE: self._leave,
        }

    def run(self) -> int:
        """Works until the attempt is over; returns the exit code."""
        self._journal.note(f"agent of job {self._plan.job}, attempt {self._enrolment.attempt}, pid {os.getpid()}")
        threading.excepthook = self._on_crash
        self._pins.begin()
        self._mounts.adopt()
        self._metrics.adopt()
        # An earlier agent began a round: its end must be known before the first status goes to the server.
        has_past = os.path.exists(f"{self._root}/keeper/round.json")
        self._supervisor.begin(lost_after_s=self._plan.lost_after_s, grace_s=self._plan.grace_s)
        while has_past and not self._knows_past:  # Others may post before the supervisor does.
            self._inbox.make_next()
        self._reporter.begin(status(self._facts, self._staging.member))
        self._act()
        while self._exit is None:
            self._inbox.make_next()
            self._act()
        if self._exit != EXIT_CRASHED:
            self._pins.end()
        self._journal.note(f"agent leaves, exit code {self._exit}")
        return self._exit

    def terminate(self, *_: object) -> None:
        """Handles SIGTERM, by which the machine takes the node away: stops the ranks with grace, then leaves."""
        self._inbox.put(self._on_terminate)

    # --- steps ----------------------------------------------------------------------------------------------------

    def _act(self) -> None:
        """Takes step after step until none is left, then reports the status."""
        while self._exit is None and (step := next_step(self._facts, self._goal())):
            self._do[step]()
        self._reporter.report(status(self._facts, self._staging.member))

    def _goal(self) -> Directive | None:
        """Returns the directive of the server, or that of the machine, which takes precedence."""
        if not self._going:
            return self._wanted
        here = self._facts.round
        has_done = here.has_ended if here.has_begun else True
        order = Order.LEAVE if has_done else Order.STOP
        return Directive(order, self._enrolment.attempt, here.number, None, self._plan.grace_s)

    def _grace_s(self) -> float:
        goal = self._goal()
        return goal.grace_s if goal else self._plan.grace_s

    def _begin_round(self) -> None:
        self._ports.release()
        number = self._wanted.round if self._wanted else 0
        self._facts.round = RoundFacts(number)
        self._facts.upload, self._facts.error, self._facts.detail = WorkState.NONE, "", ""
        self._facts.ends_early = False
        self._facts.is_transient = self._facts.is_share_missing = self._facts.is_unusable = False
        if self._facts.staging is WorkState.FAILED or (
            self._facts.staging is WorkState.DONE and self._plan.clean_rounds
        ):
            self._facts.staging = WorkState.NONE
        elif self._facts.staging is WorkState.DONE:
            self._staging.begin_again(self._facts)

    def _check_checkpoints(self, number: int) -> None:
        """Restores interrupted saves, unless ranks of other nodes may already run. Runs in any thread."""
        if self._wanted is not None and self._wanted.order is Order.PREPARE:
            self._checkpoints.check(number)

    def _hold_port(self) -> None:
        self._facts.round.port, *more = self._ports.hold()
        self._facts.round.more_ports = tuple(more)
        failpoint("agent.ready")

    def _start(self) -> None:
        roster = self._roster()
        self._metrics.begin()
        try:
            todo, starter = self._processes.processes(roster, self._metrics.address) if roster else ([], None)
        except (KeyError, IndexError, ValueError, OSError, DrumbeatError) as error:
            self._refuse_round(error)
            return
        self._facts.round.asked = True
        self._facts.detail = ""
        self._staging.close()
        failpoint("agent.before_start")
        services = self._start_services(roster) if roster else []
        order = self._processes.warm_pool_order(todo)
        self._supervisor.start(StartRound(self._facts.round.number, tuple(todo), starter, order, tuple(services)))
        failpoint("agent.after_start")
        self._follow_logs()

    def _roster(self) -> Roster | None:
        """Returns the round's roster, in which the server may have left out this node."""
        roster, here = self._wanted.roster if self._wanted else None, self._facts.round
        return roster and roster.with_member(self._staging.member, (here.port, *here.more_ports))

    def _start_services(self, roster: Roster) -> list[ProcessStart]:
        """Returns the processes of the services; their failure prevents no rank from starting."""
        try:
            return self._processes.services(roster)
        except (KeyError, IndexError, ValueError, OSError, DrumbeatError) as error:
            self._services.fail(self._facts.round.number, f"can't be started: {error}")
            return []

    def _refuse_round(self, error: Exception) -> None:
        """Ends a round whose ranks can't be started, with the reason as the error of each."""
        self._facts.round.started = self._facts.round.over = self._facts.round.logs_sent = True
        own = self._enrolment.node
        why = str(error) if isinstance(error, DrumbeatError) else f"node {own} can't determine its ranks: {error!r}"
        mine = [each.rank for each in self._plan.on(own)]
        self._facts.round.exits = {
            rank: RankExit(rank, 127, None, time.time(), order, error=why) for order, rank in enumerate(mine, 1)
        }

    def _stop(self) -> None:
        self._facts.round.stopping = True
        self._facts.detail = f"SIGTERM sent, SIGKILL after {self._grace_s():g} s"
        self._supervisor.stop(self._facts.round.number, self._grace_s())

    def _close_round(self) -> None:
        self._supervisor.cancel()
        self._ports.release()
        self._facts.round.asked, self._facts.round.closed = False, True

    def _upload(self) -> None:
        from drumbeat.node.agent.output_upload import OutputUpload

        self._facts.upload = WorkState.GOING
        link, kept = ServerLink(self._enrolment), (self._root, self._enrolment.checkpoints)
        published = {one.name for one in self._plan.outputs if one.uri}
        outputs = OutputUpload(f"{self._root}/outputs", link, self._journal, self._progress, kept, published)
        self._inbox.beside("outputs", partial(self._send_outputs, outputs), self._on_uploaded)

    def _send_outputs(self, outputs: OutputUpload) -> None:
        try:
            outputs.send()
            self._processes.finish(self._progress)
        finally:
            if outputs.message:
                self._mounts.remember(NodeMessage(f"outputs of node {self._enrolment.node}", outputs.message))

    def _leave(self) -> None:
        failpoint("agent.leaving")
        wanted = self._wanted.next if self._wanted and not self._going else None
        if wanted is not None and not self._supervisor.state.trouble:
            self.next = next_enrolment(self._enrolment, wanted, self._facts.preflight)
        self._node_tasks.end(self._grace_s())
        if self.next is None:
            self._supervisor.retire_if_prepared()
        else:
            self._supervisor.hand_over(f"{self.next.root}/keeper")
        self._supervisor.leave(self._grace_s())
        self._mounts.end()
        self._conditions.end()
        if self.next is None:
            self._metrics.end()
        else:
            self._metrics.hand_over(self.next)
        if not self._going:  # The job's other nodes have ended, too.
            self._checkpoints.close()
        if self._going:  # The server doesn't know about it: the exits still have to be delivered.
            self._reporter.report(status(self._facts, self._staging.member))
            self._reporter.await_delivery(_LAST_STATUS_S)
        self._reporter.end()
        self._supervisor.close()
        failpoint("agent.left")
        self._exit = EXIT_TERMINATED if self._going else EXIT_LEFT

    def _follow_logs(self) -> None:
        number = self._facts.round.number
        self._logs.follow(number, partial(self._finish_metrics, partial(self._posting(self._on_logs_sent), number)))

    def _finish_metrics(self, done: Callable[[], None]) -> None:
        """Waits, after the round's logs, for the metrics that its ranks wrote."""
        if self._logs.loss:
            self._mounts.remember(NodeMessage(f"logs of node {self._enrolment.node}", self._logs.loss))
        why = self._metrics.drain()
        if why:
            self._mounts.remember(NodeMessage(f"metrics of node {self._enrolment.node}", why))
        self._conditions.look()
        done()

    # --- events ---------------------------------------------------------------------------------------------------

    def _on_directive(self, directive: Directive) -> None:
        self._journal.note(f"directive: {directive.key}")
        if directive.attempt == self._enrolment.attempt:
            self._wanted = directive
            if directive.is_canceled:
                self._metrics.on_cancel()
                self._logs.on_cancel()

    def _on_supervisor(self, state: SupervisorState) -> None:
        self._knows_past = True
        if state.round < self._facts.round.number or state.round < 0:
            return
        if state.round > self._facts.round.number:
            self._facts.round = RoundFacts(state.round)
        here = self._facts.round
        if not here.has_begun:  # An earlier agent has started it.
            here.started = True
            self._follow_logs()
        here.started, here.stopping = True, here.stopping or state.stopping
        here.lost, here.abandoned, here.is_restarted = state.lost, state.is_abandoned, state.is_restarted
        self._facts.services = self._services.look(state)
        if not here.over and not here.stopping:
            self._facts.detail = f"ranks held by: {state.held_by}"
        self._report_start(state)
        if state.running:
            self._metrics.on_running(state.pid)
            self._world_check.begin(here.number, state.pid)
            self._silence.begin(here.number, state.pid, self._logs.paths)
            self._conditions.begin()
            self._idle.begin(here.number, state.pid)
            self._checkpoints.begin()
        if state.trouble:
            self._facts.detail = f"supervisor: {state.trouble}"
            self._journal.note(self._facts.detail)
            if state.over:  # The trouble persists, and the next round begins with it.
                self._mounts.remember(NodeMessage(f"supervisor of node {self._enrolment.node}", state.trouble))
        is_over = state.over and not here.over
        # The end of a stopped rank's log may follow its exit, if it passes through another process (`| tee`).
        self._add_exits(state.exits, is_again=is_over)
        if is_over:
            self._on_over()

    def _report_start(self, state: SupervisorState) -> None:
        """Records whether the ranks of a round after the first started warm."""
        if len(state.warm_workers) != self._warm_workers:
            self._warm_workers = len(state.warm_workers)
            self._journal.note(f"interpreters ready for the next round: {self._warm_workers}")
        if state.warm or state.cold:
            own = len(self._plan.on(self._enrolment.node))
            message = warm_start_fit.describe_start(state.round, own, len(state.warm), state.cold)
            kind = "warm" if len(state.warm) == own else "cold"
            self._mounts.remember(NodeMessage(f"{kind} start of round {state.round}", message))

    def _add_exits(self, exits: Sequence[SupervisedExit], *, is_again: bool) -> None:
        exits_before = self._facts.round.exits
        if exits:  # Messages about unreadable inputs are sent with the exit.
            self._mounts.look()
            self._on_message()
        for ended in exits:
            if ended.rank not in exits_before or (is_again and ended.is_stopped):
                exits_before[ended.rank] = self._processes.exits.read(ended, self._logs.paths[ended.rank])

    def _on_over(self) -> None:
        self._world_check.end()
        self._silence.end()
        self._idle.end()
        self._checkpoints.end()
        self._facts.is_silent = self._facts.is_idle = False
        self._facts.has_checkpoint = self._checkpoints.has_saved()
        self._metrics.on_over()
        self._facts.round.over = True
        self._facts.detail = ""
        self._processes.clear()
        if self._plan.container:
            self._containers.clear()
        self._ports.release()
        self._logs.finish()

    def _on_logs_sent(self, number: int) -> None:
        if number == self._facts.round.number:
            self._facts.round.logs_sent = True

    def _on_supervisor_trouble(self, message: str) -> None:
        self._knows_past = True
        self._facts.supervisor_error = message

    def _on_message(self) -> None:
        self._facts.messages = self._mounts.messages()

    def _on_silence(self, number: int, silence: Silence) -> None:
        if number == self._facts.round.number and not self._facts.round.over:
            self._facts.is_silent, self._facts.is_idle = silence.is_silent, silence.is_idle
            self._journal.note(f"round {number}: {silence}")

    def _on_conditions(self, states: Sequence[ConditionState]) -> None:
        kept = {one.condition: one for one in (*self._facts.conditions, *states)}
        self._facts.conditions = tuple(kept[number] for number in sorted(kept))
        if self._alone is None and ends_alone(self._plan.conditions, self._facts.conditions, self._plan.nodes):
            number = self._facts.round.number
            self._alone = threading.Timer(_ALONE_AFTER_S, partial(self._posting(self._on_no_order), number))
            self._alone.daemon = True
            self._alone.start()

    def _on_no_order(self, number: int) -> None:
        """Stops the ranks of a job that a condition ends, while the server doesn't answer."""
        self._alone = None
        is_due = ends_alone(self._plan.conditions, self._facts.conditions, self._plan.nodes)
        if is_due and number == self._facts.round.number and not self._facts.round.over:
            self._journal.note("a condition ends the job, and the server gives no order: the ranks are stopped")
            self._facts.ends_early = True

    def _on_uploaded(self, error: DrumbeatError | None) -> None:
        self._facts.upload = WorkState.FAILED if error else WorkState.DONE
        self._facts.error, self._facts.detail = str(error or ""), ""

    def _progress(self, message: str) -> None:
        """Receives progress from a working thread, and reports it at most at the interval that the server needs."""
        now = time.monotonic()
        if now - self._detail_at > _PROGRESS_INTERVAL_S:
            self._detail_at = now
            self._inbox.put(partial(setattr, self._facts, "detail", message))

    def _on_stale(self) -> None:
        self._journal.note("the attempt is over: the ranks are stopped")
        self._node_tasks.end(self._plan.grace_s)
        self._supervisor.leave(self._plan.grace_s)
        self._mounts.end()
        self._metrics.end()
        self._exit = EXIT_STALE

    def _on_terminate(self) -> None:
        if self._going:
            return
        self._journal.note("SIGTERM: the ranks are stopped, then the agent goes")
        self._going = self._facts.is_preempted = True
        self._facts.detail = "the node was told to stop (SIGTERM)"
        last = threading.Timer(self._plan.grace_s + _LAST_LOGS_S, self._posting(self._leave))
        last.daemon = True
        last.start()

    def _on_crash(self, crash: threading.ExceptHookArgs) -> None:
        """Ends the agent after a thread crashed: a new agent, which finds the supervisor, replaces it."""
        import traceback

        lines = traceback.format_exception(crash.exc_type, crash.exc_value, crash.exc_traceback)
        self._journal.note("".join(lines))
        with contextlib.suppress(OSError):  # In case the agent's own log can't be written.
            print("".join(lines), file=sys.stderr, flush=True)  # noqa: T201 (nothing else is left)
        self._inbox.put(partial(setattr, self, "_exit", EXIT_CRASHED))

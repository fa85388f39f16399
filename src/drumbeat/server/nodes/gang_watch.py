"""The watch over running gangs: engines are asked about them, and a node whose state stays unknown is given up.

A missed heartbeat is not a death. An engine's word that a node is gone is; the rule for silence is in `heartbeats.py`.
The default of `lost_after_s` is in `jobfile/job/timeouts_and_retries.py`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Future

from drumbeat.core.lifecycle.events import Event, GangObserved, Loss, NodeDeparture, NodeLost, NodesNotConnected
from drumbeat.core.lifecycle.job import Job
from drumbeat.model.errors import DrumbeatError
from drumbeat.model.states import State
from drumbeat.ports.engines import Gang, GangStatus
from drumbeat.server.computes.broken_engine import BrokenEngine
from drumbeat.server.computes.engines import Engines
from drumbeat.server.loop.loop import Loop
from drumbeat.server.loop.repeated_failures import RepeatedFailures
from drumbeat.server.nodes.heartbeats import Heartbeats, lost_by_silence, without_first_call
from drumbeat.server.nodes.pooled_watch import PooledWatch

log = logging.getLogger(__name__)

OBSERVE_INTERVAL_S = 1.0
"""How often engines are asked about the gangs that should be running."""
MAX_NODES_NAMED = 5
"""A sentence about more nodes names none of them: it would change with each agent that calls."""
PAUSED_AFTER_S = 3 * OBSERVE_INTERVAL_S
"""A server that has not looked for longer than this stood still."""

_WITH_GANG = (State.PROVISIONING, State.STAGING, State.RUNNING, State.STOPPING, State.FINALIZING)


class GangWatch(PooledWatch):
    """Asks engines about gangs, on threads of its own beside the loop."""

    def __init__(self, loop: Loop, engines: Engines, gang_of: Callable[[Job], Gang], heartbeats: Heartbeats) -> None:
        super().__init__("observe", OBSERVE_INTERVAL_S, "the gangs could not be asked about")
        self.loop, self.engines, self.gang_of, self.heartbeats = loop, engines, gang_of, heartbeats
        self._asked: dict[str, Future[None]] = {}
        """Jobs whose answers are still awaited."""
        self._failures = RepeatedFailures[str]()
        """Of jobs that can't be looked after."""

    def start(self) -> None:
        """Starts the thread that asks."""
        self.heartbeats.wake()
        super().start()

    def look(self) -> None:
        """Asks about each running gang."""
        self._asked = {name: one for name, one in self._asked.items() if not one.done()}
        self.heartbeats.excuse()
        jobs = [r.job for r in list(self.loop.jobs.values()) if r.job.state in _WITH_GANG]
        self.heartbeats.keep_only({(job.name, job.attempt) for job in jobs})
        self._failures.forget_all_but({job.name for job in jobs})
        for job in jobs:
            if job.name not in self._asked:  # An engine that is slow about one gang delays no other.
                self._asked[job.name] = self.pool.submit(self._guarded, job)

    def look_after(self, job: Job) -> None:
        """Asks the engine about one gang, and applies its answer to the job.

        Raises what the engine raised; nodes that have been silent for too long are given up all the same.
        """
        if not self.loop.is_current or job.observed is None:
            return  # The outbox is still starting it, though some nodes may be running.
        gang: Gang | None = None
        try:
            gang = self.gang_of(job)
            sighting = self.engines[job.plan.compute].observe(gang)
        except Exception:
            self._apply_all(job, self._events_unseen(job, gang))
            raise
        self._apply_all(job, self._events(job, gang, sighting))

    def _apply_all(self, job: Job, events: list[Event]) -> None:
        for event in events:
            self.loop.call(lambda event=event: self._apply(job, event))

    def _apply(self, job: Job, event: Event) -> None:
        if self.loop.is_there(job):  # The engine may have taken long.
            self.loop.apply(job.name, event)

    def _guarded(self, job: Job) -> None:
        try:
            self.look_after(job)
        except Exception as error:
            if self._failures.is_new(job.name, error):
                has_traceback = not isinstance(error, DrumbeatError)
                log.warning("could not look after job %s; trying again: %s", job.name, error, exc_info=has_traceback)
        else:
            self._failures.forget(job.name)

    def _events_unseen(self, job: Job, gang: Gang | None) -> list[Event]:
        """What is known of a gang that the engine can't be asked about. gang: None = it could not be made."""
        if gang is None and not isinstance(self.engines.get(job.plan.compute), BrokenEngine):
            self._excuse_all(job)  # The server has lost the address at which its agents call.
            return []
        # A node that has never called may wait in the cluster's queue.
        silent = {node: self._silent_s(job, node) for node, status in enumerate(job.nodes) if status is not None}
        lost = lost_by_silence(job, silent)
        new: list[Event] = [_out_of_touch(job, node, lost[node]) for node in sorted(lost) if node not in job.lost]
        if new:
            self.engines.look()  # Before anything is placed again.
        return new

    def _events(self, job: Job, gang: Gang, sighting: GangStatus) -> list[Event]:
        seen = GangObserved(job.attempt, sighting.word, sighting.waits, notice=sighting.notice)
        events: list[Event] = [seen] if sighting.word else []
        if sighting.waits:
            self._excuse_all(job)
        for node in sighting.starting:
            self.heartbeats.heard(job.name, job.attempt, node)
        silent = {node: self._silent_s(job, node) for node in range(job.plan.nodes) if node not in sighting.gone}
        if unheard := without_first_call(job, silent):
            events.append(
                NodesNotConnected(job.attempt, f"no agent of {_format_nodes(unheard)} has called {_where(gang)} yet")
            )
        lost = {node: NodeLost(job.attempt, node, why, sighting.cause) for node, why in sighting.gone.items()}
        lost |= {node: _silent(job, gang, node, silent_s) for node, silent_s in lost_by_silence(job, silent).items()}
        new = [lost[node] for node in sorted(lost) if node not in job.lost]
        events += [NodeDeparture(job.attempt, *one) for one in sorted(sighting.leaving.items()) if one[0] not in lost]
        if new or sighting.leaving:
            self.engines.look()  # Before anything is placed again.
        return [*events, *new]

    def _excuse_all(self, job: Job) -> None:
        """Agents that can't call, because the gang waits in the engine's queue for example, are not silent."""
        for node in range(job.plan.nodes):
            self.heartbeats.heard(job.name, job.attempt, node)

    def _silent_s(self, job: Job, node: int) -> float:
        return self.heartbeats.silent_s(job.name, job.attempt, node)


def _silent(job: Job, gang: Gang, node: int, silent_s: float) -> NodeLost:
    """The loss of a node that was silent for too long; silence has no cause."""
    if job.nodes[node] is None:
        what = f"the agent of node {node} has not called {_where(gang)} in {silent_s:.0f} s"
        return NodeLost(job.attempt, node, what, Loss.UNHEARD)
    return _out_of_touch(job, node, silent_s)


def _out_of_touch(job: Job, node: int, silent_s: float) -> NodeLost:
    why = f"its agent has been silent for {silent_s:.0f} s, and the engine can't tell about it"
    return NodeLost(job.attempt, node, why)


def _format_nodes(nodes: list[int]) -> str:
    if len(nodes) == 1:
        return f"node {nodes[0]}"
    return f"nodes {', '.join(map(str, nodes))}" if len(nodes) <= MAX_NODES_NAMED else "many nodes"


def _where(gang: Gang) -> str:
    return f"the server at {' or '.join(gang.servers)}" if gang.servers else "the server"

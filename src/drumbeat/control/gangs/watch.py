"""Who is there: agents are heard, engines are asked, and a node that nobody can tell about is given up in the end.

A missed heartbeat is not a death. An engine's word that a node is gone is; silence alone is only after the job's own
`lost_after_s`, counted on this server's monotonic clock, which starts anew when the server does.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

from drumbeat.control.computes.computes import Computes
from drumbeat.control.loop.loop import Loop
from drumbeat.core.life.events import Event, GangSeen, Loss, NodeLost, Unheard
from drumbeat.core.life.job import Job
from drumbeat.ports import Gang
from drumbeat.protocol.states import State

log = logging.getLogger(__name__)

OBSERVE_S = 1.0
"""How often engines are asked about the gangs that should be there."""
UNHEARD_S = 60.0
"""So long after its start an agent that hasn't called yet is told of: it may never do."""
MOST_NAMED = 5
"""Of more nodes than this the sentence names none: it would be another one with each that calls."""
ASLEEP_S = 3 * OBSERVE_S
"""A server that hasn't looked for longer than this stood still."""

Node = tuple[str, int, int]
"""Job, attempt, node."""

_WITH_GANG = (State.PROVISIONING, State.STAGING, State.RUNNING, State.STOPPING, State.FINALIZING)


class Watch:
    """Hears agents and asks engines, beside the loop."""

    def __init__(self, loop: Loop, engines: Computes, gang_of: Callable[[Job], Gang]) -> None:
        self.loop, self.engines, self.gang_of = loop, engines, gang_of
        self._heard: dict[Node, float] = {}
        self._awake_at: float | None = None
        """When it last looked around; None before it has begun."""
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)
        self._pool = ThreadPoolExecutor(max_workers=4, thread_name_prefix="observe")

    def start(self) -> None:
        """Begins to ask."""
        self._thread.start()

    def stop(self) -> None:
        """Asks no more."""
        self._stopping.set()
        self._thread.join(timeout=2)
        self._pool.shutdown(wait=False, cancel_futures=True)

    def heard(self, job: str, attempt: int, node: int) -> None:
        """An agent has called."""
        with self._lock:
            self._heard[job, attempt, node] = self.loop.clock.monotonic()

    def _run(self) -> None:
        self._awake_at = self.loop.clock.monotonic()
        asked: dict[str, Future[None]] = {}
        while not self._stopping.wait(OBSERVE_S):
            try:
                asked = {name: one for name, one in asked.items() if not one.done()}
                self._ask(asked)
            except Exception:
                if not self._stopping.is_set():
                    log.exception("the gangs could not be asked about; trying again")

    def _ask(self, asked: dict[str, Future[None]]) -> None:
        """asked: those whose answers are waited for, and more are added to them."""
        self._excuse()
        jobs = [r.job for r in list(self.loop.jobs.values()) if r.job.state in _WITH_GANG]
        self._forget(jobs)
        for job in jobs:
            if job.name not in asked:  # An engine that takes long to tell of one gang holds up nobody's but that.
                asked[job.name] = self._pool.submit(self._guarded, job)

    def _excuse(self) -> None:
        with self._lock:
            self._excused()

    def _excused(self) -> float:
        """Now. Time in which this server itself stood still, stopped or starved, is nobody's silence. Takes the lock to
        be held: between a look at the clock and the silence that is read off it, it might stand still again.
        """
        now = self.loop.clock.monotonic()
        if self._awake_at is not None:  # Else it doesn't look by itself yet.
            gap, self._awake_at = now - self._awake_at, now
            if gap > ASLEEP_S:
                log.warning("this server stood still for %.0f s, which isn't taken for its agents' silence", gap)
                self._heard = {node: min(now, at + gap) for node, at in self._heard.items()}
        return now

    def _forget(self, jobs: list[Job]) -> None:
        there = {(job.name, job.attempt) for job in jobs}
        with self._lock:
            self._heard = {node: at for node, at in self._heard.items() if node[:2] in there}

    def look_after(self, job: Job) -> None:
        """Asks the engine about one gang, and tells the job what it said."""
        if not self.loop.holds(job.name):
            return
        for event in self._events(job):
            self.loop.call(lambda event=event: self.loop.apply(job.name, event))

    def _guarded(self, job: Job) -> None:
        try:
            self.look_after(job)
        except Exception:
            log.exception("could not look after job %s; trying again", job.name)

    def _events(self, job: Job) -> list[Event]:
        if job.observed is None:
            return []  # Not all of it is asked for yet: the outbox is still at it, though some nodes may be there.
        gang = self.gang_of(job)
        sighting = self.engines[job.plan.compute].observe(gang)
        events: list[Event] = [GangSeen(job.attempt, sighting.word, sighting.waits)] if sighting.word else []
        if sighting.waits:
            self._miss_nobody(job)
        silent = {node: self._silent_s(job, node) for node in range(job.plan.nodes) if node not in sighting.gone}
        unheard = [node for node, silent_s in silent.items() if silent_s > UNHEARD_S and job.nodes[node] is None]
        if unheard:
            events.append(Unheard(job.attempt, f"no agent of {_say_nodes(unheard)} has called {_where(gang)} yet"))
        lost = {node: NodeLost(job.attempt, node, why, sighting.cause) for node, why in sighting.gone.items()}
        for node, silent_s in silent.items():
            if silent_s > job.plan.lost_after_s:
                lost[node] = _silent(job, gang, node, silent_s)
        new = [lost[node] for node in sorted(lost) if node not in job.lost]
        if new:
            self.engines.look()  # Before anything is placed again.
        return [*events, *new]

    def _miss_nobody(self, job: Job) -> None:
        """Agents that can't be there yet aren't silent."""
        for node in range(job.plan.nodes):
            self.heard(job.name, job.attempt, node)

    def _silent_s(self, job: Job, node: int) -> float:
        with self._lock:
            now = self._excused()
            return now - self._heard.setdefault((job.name, job.attempt, node), now)


def _silent(job: Job, gang: Gang, node: int, silent_s: float) -> NodeLost:
    """Silence says nothing of why."""
    if job.nodes[node] is None:
        what = f"the agent of node {node} has not called {_where(gang)} in {silent_s:.0f} s"
        return NodeLost(job.attempt, node, what, Loss.UNHEARD)
    why = f"its agent has been silent for {silent_s:.0f} s, and the engine can't tell about it"
    return NodeLost(job.attempt, node, why)


def _say_nodes(nodes: list[int]) -> str:
    if len(nodes) == 1:
        return f"node {nodes[0]}"
    return f"nodes {', '.join(map(str, nodes))}" if len(nodes) <= MOST_NAMED else "many nodes"


def _where(gang: Gang) -> str:
    return f"the server at {' or '.join(gang.servers)}" if gang.servers else "the server"

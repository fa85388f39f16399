"""The engine over a Kubernetes cluster: a gang is N plain pods. Kubernetes chooses the machines.

One thread lists the pods of all gangs every two seconds; no watch is used, because a watch is silent when its server
vanishes. Only `start` creates pods: a pod that ended or was deleted is never created again.
"""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any

from drumbeat.engines.agent_archive import agent_archive
from drumbeat.engines.kubernetes import machines, render, scheduling_gates
from drumbeat.engines.kubernetes.connection import ClusterConnection
from drumbeat.engines.kubernetes.names import GANG, gang_name, owner
from drumbeat.engines.kubernetes.node_states import Occupant, judged_node
from drumbeat.engines.kubernetes.objects import Api, Pods, occupants
from drumbeat.engines.kubernetes.pod_history import GangHistory, Look
from drumbeat.engines.kubernetes.unreachable_nodes import GRACE_S, QUIET_S, NodeLooks, unknown_nodes
from drumbeat.engines.own_address import route_to
from drumbeat.engines.poller import Poller
from drumbeat.engines.unwanted_gangs import Wanted, unwanted
from drumbeat.jobfile.compute.kubernetes import KubernetesCompute
from drumbeat.model.api.computes import Machine, NodeState
from drumbeat.model.errors import DrumbeatError, EngineError, UnreachableError
from drumbeat.model.failpoints import failpoint
from drumbeat.model.plurals import counted
from drumbeat.ports.engines import Gang, GangStatus

POLL_S, NODES_INTERVAL_S, JUDGE_INTERVAL_S = 2.0, 5.0, 10.0
END_S = 50.0
"""How long one call of `stop` waits for pods; the call is repeated."""


@dataclass
class _Tracked:
    """A gang that the engine tracks. since: when its pods certainly existed, by the monotonic clock; inf = they are
    being created.
    """

    gang: Gang
    history: GangHistory
    since: float
    servers: tuple[str, ...]
    sighting: GangStatus = field(default_factory=lambda: GangStatus("created", waits=True))
    seen_at: float = -1.0


@dataclass(frozen=True)
class _Refusal:
    """A gang whose pods could not be released. times: refusals in a row. until: when the next try is due, by the
    monotonic clock.
    """

    times: int
    until: float
    why: str


class KubernetesEngine:
    """The `Engine` of one compute. mark: distinguishes this server's pods from those of other
    servers in the namespace.
    """

    name = "kubernetes"
    has_queue = True
    leave_s = 3.0
    """How long the engine waits for pods whose agents are leaving before it deletes them."""
    node_grace_s, quiet_s = GRACE_S, QUIET_S
    nodes_s = NODES_INTERVAL_S

    def __init__(self, spec: KubernetesCompute, mark: str, api: Api) -> None:
        self._spec, self._api = spec, api
        self._owner = owner(spec.name, mark)
        self._looks: NodeLooks | None = None
        self._nodes: list[dict[str, Any]] = []
        self._occupants: dict[str, list[Occupant]] = {}
        """The job nodes of this compute, by machine."""
        self._nodes_at, self._judged_at = -math.inf, -math.inf
        self._placing = ""
        """The object name of the gang whose placement the other gated gangs wait for."""
        self._refusals: dict[str, _Refusal] = {}
        """Gangs whose pods could not be released, by object name."""
        self._has_gates: bool | None = None
        """Whether the cluster has scheduling gates and its user may remove them; None = not asked yet."""
        self._is_blind = False
        """Whether the cluster's user lacks the permission to list nodes."""
        self._tracked: dict[str, _Tracked] = {}
        self._backoffs: dict[str, tuple[int, float]] = {}
        """By unique name of a job: how often it gave its pods back, and until when it may not ask again."""
        self._wanted: Wanted | None = None
        """The wanted gangs, as of the first sweep; before that, unknown gangs are left alone."""
        self._must_sweep = False
        self._ending: set[str] = set()
        """Drumbeat's names of unwanted gangs that may still have a Secret."""
        self._lock = threading.Lock()
        self.poller = Poller("Kubernetes", self._look, lambda: bool(self._tracked) or self._must_sweep, busy_s=POLL_S)

    @property
    def _pods(self) -> Pods:
        return Pods(self._api, render.PodScope(self._owner, self._api.namespace))

    # --- machines ---------------------------------------------------------------------------------------------
    def machines(self) -> list[Machine]:
        """The cluster's nodes, as last listed. Raises UnreachableError before the first list, NoMachinesError where no
        node accepts the compute's pods.
        """
        self._begin()
        if (problem := self.poller.problem) and self._nodes_at == -math.inf:
            raise UnreachableError(problem.what, fix=problem.fix)
        listed = machines.machines(self._spec, self._nodes, self._occupants)
        if not listed and self._is_blind:
            what = "the server may not list the cluster's nodes, so the largest possible size of a job is unknown"
            raise UnreachableError(what, fix="Set `nodes` and `cpus_per_node` in the compute's file.")
        if not listed and self._nodes_at > -math.inf:
            raise machines.no_machines(self._spec, self._nodes)
        return listed

    def server_addresses(self) -> list[str]:
        """The address of this machine on the route to the cluster."""
        if self._spec.server_address:
            return [self._spec.server_address]
        own = route_to(*self._api.server)
        if not own or own.startswith("127.") or own == "::1":
            what = "the route to the API server doesn't show at which address pods reach this machine"
            raise UnreachableError(what, fix="Set `server_address` in the compute's file.")
        return [own]

    # --- gangs ------------------------------------------------------------------------------------------------
    def start(self, gang: Gang) -> str:
        """Creates the gang's missing pods. Raises EngineError with Kubernetes' refusal."""
        self._begin()
        tracked = self._track(gang, math.inf)
        self.poller.nudge()
        self._require_turn(gang)
        self._pods.create(self._spec, gang, agent_archive(), is_gated=self._knows_gates())
        failpoint("engine.submitted")
        tracked.since = time.monotonic()
        self.poller.nudge()
        return f"created {len(gang.slots)} pods, {gang_name(self._owner, gang.name)}-*"

    def _knows_gates(self) -> bool:
        """Whether gangs of several nodes wait for each other, so that they are placed one after another."""
        if self._has_gates is None:
            self._has_gates = self._pods.has_gates()
        return self._has_gates

    def _require_turn(self, gang: Gang) -> None:
        times, until = self._backoffs.get(gang.unique_job, (0, 0.0))
        if time.monotonic() < until:
            # The text is the same each time, because each different text is an event of the job.
            pause = f"it asks again {backoff_s(times, gang.unique_job):.0f} s after that"
            given_back = f"it gave its pods back {counted(times, 'time')} because not all got machines"
            raise UnreachableError(f"{given_back}; {pause}")

    def rendered(self, gang: Gang) -> str:
        """The pod of node 0."""
        return render.rendered(self._spec, gang, self._pods.scope, agent_archive(), is_gated=bool(self._has_gates))

    def observe(self, gang: Gang) -> GangStatus:
        """The gang's state as of the last list of its pods."""
        self._begin()
        tracked = self._track(gang, time.monotonic())
        trouble = self.poller.trouble
        if tracked.seen_at < tracked.since:
            word = "created" if tracked.since < math.inf else ""
            return GangStatus(f"{word}: {trouble}" if word and trouble else word, waits=True)
        seen = tracked.sighting
        if not trouble or seen.gone:
            return seen
        return GangStatus(f"{seen.word}; {trouble}", waits=seen.waits)

    def _track(self, gang: Gang, since: float) -> _Tracked:
        with self._lock:
            tracked = self._tracked.get(gang.name)
            if tracked is None:  # `observe` gets gangs that another server started.
                history = GangHistory(
                    gang_name(self._owner, gang.name),
                    len(gang.slots),
                    self._spec.schedule_timeout,
                    self._spec.image_timeout,
                )
                tracked = self._tracked[gang.name] = _Tracked(gang, history, since, gang.servers)
                self.poller.nudge()
            tracked.gang = gang
            return tracked

    # --- stop -------------------------------------------------------------------------------------------------
    def stop(self, name: str) -> None:
        """Waits a moment for pods whose agents leave, then deletes the others; by force on lost machines.

        The attempt is over by now: every server refuses an agent that continues on a partitioned machine.
        """
        deadline = time.monotonic() + self.leave_s
        while self._pods.are_running(name, self._lost()) and time.monotonic() < deadline:
            self.poller.wait(0.2)
        deadline, pause = time.monotonic() + END_S, 0.1
        while left := self._pods.delete(name, self._lost()):
            if time.monotonic() >= deadline:
                raise UnreachableError(f"pod {left[0]} is still ending")
            time.sleep(pause)
            pause = min(2.0, pause * 1.5)
        failpoint("engine.cancelled")
        self._pods.delete_secret(name)
        self._ending.discard(name)
        self._forget(name)

    def _lost(self) -> frozenset[str]:
        return self._looks.unreachable if self._looks else frozenset()

    def _forget(self, gang: str) -> None:
        with self._lock:
            self._tracked.pop(gang, None)

    def sweep(self, wanted: Wanted) -> list[str]:
        """Deletes the pods of all other gangs and waits for them; without an answer of the API,
        as soon as it answers.
        """
        try:
            surplus = sorted(self._pods.gangs() - wanted())
            self._wanted = wanted
            self._ending.update(surplus)
            self._pods.delete_all(surplus)
            for name in surplus:
                self.stop(name)
        except DrumbeatError as error:
            self._wanted, self._must_sweep = wanted, True
            self._begin()
            raise EngineError(error.what, where=error.where, fix=error.fix) from error
        return surplus

    def close(self) -> None:
        """Stops polling, and closes the connections."""
        self.poller.close()
        self._api.close()

    # --- asking -----------------------------------------------------------------------------------------------
    def _begin(self) -> None:
        with self._lock:
            self._looks = self._looks or NodeLooks(self.node_grace_s, self.quiet_s)
        self.poller.begin()

    def _look(self) -> None:
        try:
            self._look_at_all()
        except DrumbeatError:
            if self._looks:
                self._looks.failed()
            raise

    def _look_at_all(self) -> None:
        began = time.monotonic()
        if began - self._nodes_at >= self.nodes_s:
            self._look_at_nodes(began)
        pods = self._pods.by_gang()
        self._occupants = occupants(pods)
        look = self._view(began)
        self._release(pods, began)
        for tracked in [one for one in list(self._tracked.values()) if one.since <= began]:
            self._look_at(tracked, pods.get(tracked.history.name, {}), look)
        if began - self._judged_at > JUDGE_INTERVAL_S or self._must_sweep:
            self._judged_at = began
            self._end_unwanted({pod["metadata"]["labels"][GANG] for each in pods.values() for pod in each.values()})

    def _release(self, pods: Mapping[str, Mapping[int, dict[str, Any]]], now: float) -> None:
        """Releases the pods of the next gated gang. A refused release is tried again later."""
        sizes = {one.history.name: one.history.size for one in list(self._tracked.values())}
        self._refusals = {name: one for name, one in self._refusals.items() if name in pods}
        refused = {name for name, one in self._refusals.items() if now < one.until}
        ready, self._placing = scheduling_gates.next_release(pods, sizes, refused)
        for name, gated in ready.items():
            try:
                for pod in gated:
                    self._pods.release(pod)
                self._refusals.pop(name, None)
            except EngineError as error:
                times = self._refusals[name].times + 1 if name in self._refusals else 1
                self._refusals[name] = _Refusal(times, now + backoff_s(times, name), str(error))
        if ready:
            self.poller.nudge()

    def _held_because(self, name: str) -> str:
        """Why a gang's scheduling gates remain, "" = they don't. name: the object name."""
        if refusal := self._refusals.get(name):
            return f"its pods can't be released, so other jobs go first until a later try succeeds: {refusal.why}"
        if self._placing and name != self._placing:
            return f"its pods are released when those of {self._placing} have machines"
        return ""

    def _view(self, now: float) -> Look:
        verdicts = {one["metadata"]["name"]: judged_node(one) for one in self._nodes}
        unfit = {name for name, one in verdicts.items() if one.state is not NodeState.IDLE}
        leaving = {name: one.why for name, one in verdicts.items() if one.state is NodeState.LEAVING}
        return Look(now, lost=self._lost(), unfit=unfit, leaving=leaving)

    def _look_at_nodes(self, began: float) -> None:
        nodes = self._pods.nodes()
        self._is_blind = nodes is None
        self._nodes, self._nodes_at = nodes or [], began
        if self._looks:
            self._looks.looked(unknown_nodes(self._nodes), time.monotonic())

    def _look_at(self, tracked: _Tracked, pods: dict[int, dict[str, Any]], look: Look) -> None:
        history = tracked.history
        had_given_up = history.gave_up
        history.looked(pods, look)
        if history.is_puzzled and not self._is_blind:  # A drain cordons a machine and evicts its pods at once.
            self._look_at_nodes(look.now)
            look = self._view(look.now)
            history.looked(pods, look)
        for node in sorted(history.questions):
            history.answered(node, self._pods.events(history.name, node))
        if history.questions:
            history.looked(pods, look)
        if history.gave_up and not had_given_up:
            job = tracked.gang.unique_job
            times = self._backoffs.get(job, (0, 0.0))[0] + 1
            self._backoffs[job] = times, look.now + backoff_s(times, job)
        tracked.sighting = history.sighting()
        if pods and all(map(scheduling_gates.is_gated, pods.values())) and (why := self._held_because(history.name)):
            tracked.sighting = replace(tracked.sighting, word=f"{tracked.sighting.word}; {why}")
        tracked.seen_at = look.now
        if tracked.sighting.waits and tracked.gang.servers != tracked.servers:
            # Its nodes will call the servers that exist when they start, possibly days from now.
            with contextlib.suppress(DrumbeatError):
                self._pods.renew_secret(self._spec, tracked.gang)
                tracked.servers = tracked.gang.servers
        if pods and not tracked.sighting.waits and not tracked.sighting.gone:
            self._backoffs.pop(tracked.gang.unique_job, None)

    def _end_unwanted(self, present: set[str]) -> None:
        """Deletes pods of gangs that no job wants: a start that was given up may be carried out after the stop."""
        names = self._pods.gangs() if present else set[str]()
        leftovers = unwanted({*names, *self._tracked, *self._ending}, self._wanted)
        for name in leftovers:
            self._forget(name)
        surplus = sorted(leftovers & names)
        self._pods.delete_all(surplus)
        for name in sorted(self._ending & leftovers - names):
            self._pods.delete_secret(name)
            self._ending.discard(name)
        self._ending.update(surplus)
        self._must_sweep = bool(self._ending)


def backoff_s(times: int, gang: str) -> float:
    """How long a job waits before it asks for pods again, after it gave them back `times` times. Two jobs that block
    each other get different pauses.
    """
    share = sha256(gang.encode()).digest()[0] / 255
    return min(600.0, 15.0 * 2 ** min(times, 6)) * (0.5 + share)


def connected_engine(spec: KubernetesCompute, mark: str) -> KubernetesEngine:
    """An engine with its own connection. Raises EngineError without the Kubernetes client."""
    return KubernetesEngine(spec, mark, ClusterConnection(spec))

"""The engine over a Ray cluster: a gang is a placement group with an actor for each node. Ray chooses the machines.

Everything goes through the dashboard's REST API: a Ray job of a few seconds creates the group and its actors, another
one ends them. One thread lists actors, machines and groups every two seconds, for all gangs at once.
"""

from __future__ import annotations

import math
import threading
import time
from dataclasses import dataclass, field, replace

from drumbeat.core.scheduling.autoscaling import StartTimes, format_time
from drumbeat.engines.own_address import route_to
from drumbeat.engines.poller import Poller
from drumbeat.engines.ray import autoscaler, render
from drumbeat.engines.ray.dashboard import Dashboard
from drumbeat.engines.ray.gangs import ClusterView, RayGangs
from drumbeat.engines.ray.machines import heads, machines, no_machines
from drumbeat.engines.ray.names import prefix
from drumbeat.engines.ray.states import GangView, judged
from drumbeat.engines.unwanted_gangs import Wanted, unwanted
from drumbeat.jobfile.compute.ray import RayCompute
from drumbeat.model.api.computes import Machine, Scale
from drumbeat.model.errors import DrumbeatError, EngineError, Problem, UnreachableError
from drumbeat.model.failpoints import failpoint
from drumbeat.ports.engines import Gang, GangStatus

POLL_S, JUDGE_INTERVAL_S = 2.0, 10.0
END_S, END_PAUSE_S, MAX_END_PAUSE_S = 100.0, 0.5, 5.0
"""How long one call of `stop` waits for Ray, and the pauses between its requests; the call is repeated."""


@dataclass
class _Tracked:
    """A gang that the engine tracks. since: when its job was certainly submitted, by the monotonic clock; inf = it is
    being submitted.
    """

    gang: Gang
    since: float
    session: str = ""
    """The cluster's session in which the gang was observed."""
    sighting: GangStatus = field(default_factory=lambda: GangStatus("submitted", waits=True))
    seen_at: float = -1.0
    waits_since: float | None = None
    """Since when its group waits for machines, by the monotonic clock."""


class RayEngine:
    """The `Engine` of one compute. mark: distinguishes this server's gangs from those of other
    servers on the cluster.
    """

    name = "ray"
    has_queue = True
    leave_s = 5.0
    """How long the engine waits for nodes whose agents are leaving before a job ends them."""

    def __init__(self, spec: RayCompute, mark: str, dashboard: Dashboard | None = None) -> None:
        self._spec = spec
        self._dashboard = dashboard or Dashboard(spec)
        own = prefix(spec.name, mark)
        self._gangs = RayGangs(self._dashboard, spec, own)
        self._survey = autoscaler.Survey(self._dashboard, own)
        self._start_times = StartTimes()
        self._cluster: ClusterView | None = None
        self._session = ""
        self._tracked: dict[str, _Tracked] = {}
        self._wanted: Wanted | None = None
        """The wanted gangs, as of the first sweep; before that, unknown gangs are left alone."""
        self._must_sweep = False
        self._judged_at = -math.inf
        self._lock = threading.Lock()
        self.poller = Poller("Ray", self._look, lambda: bool(self._tracked) or self._must_sweep, busy_s=POLL_S)

    # --- machines ---------------------------------------------------------------------------------------------
    def machines(self) -> list[Machine]:
        """The cluster's machines, as last listed. Raises UnreachableError before the first list, NoMachinesError where
        none can run the compute's nodes.
        """
        self.poller.begin()
        if self._cluster is None:
            problem = self.poller.problem or Problem("the Ray dashboard hasn't been asked yet")
            raise UnreachableError(problem.what, fix=problem.fix)
        scale, wish = self.scale(), self._spec.max_instances
        most = wish if scale is None else min(scale.max_instances, wish or scale.max_instances)
        listed = machines(self._spec, self._cluster.nodes.values(), most, self._cluster.states)
        # The autoscaler may start some.
        if not listed and (self._survey.is_over or not self._is_elastic):
            raise no_machines(self._spec, self._cluster.nodes.values())
        return listed

    def scale(self) -> Scale | None:
        """The limits of the cluster's autoscaler; None = unknown, or no autoscaler."""
        numbers, cluster = self._survey.autoscaler, self._cluster
        if numbers is None or cluster is None:
            return None
        own = machines(self._spec, heads(cluster.nodes.values()), None)
        return autoscaler.scale(numbers, len(own), self._start_times.usual_s())

    @property
    def _is_elastic(self) -> bool:
        """Whether the compute's file describes an autoscaled cluster."""
        return (self._spec.min_instances, self._spec.max_instances, self._spec.idle_time_before_scale_down) != (
            None,
            None,
            None,
        )

    def server_addresses(self) -> list[str]:
        """The address of this machine on the route to the cluster."""
        if self._spec.server_address:
            return [self._spec.server_address]
        own = route_to(*self._dashboard.server)
        if not own or own.startswith("127.") or own == "::1":
            what = "the route to the dashboard doesn't show at which address the cluster's machines reach this one"
            raise UnreachableError(what, fix="Set `server_address` in the compute's file.")
        return [own]

    # --- gangs ------------------------------------------------------------------------------------------------
    def start(self, gang: Gang) -> str:
        """Submits the Ray job that starts the gang, unless it was submitted before. Raises EngineError with Ray's
        refusal.
        """
        self.poller.begin()
        tracked = self._track(gang, math.inf)
        self.poller.nudge()
        name = self._gangs.object_name(gang.name)
        if not self._gangs.has_begun(gang.name):
            self._gangs.submit(gang)
        failpoint("engine.submitted")
        tracked.since = time.monotonic()
        self.poller.nudge()
        return f"submitted as Ray job {name}.*"

    def rendered(self, gang: Gang) -> str:
        """The Ray job that starts the gang, and its description of the gang."""
        return render.rendered(self._spec, gang, self._gangs.object_name(gang.name))

    def observe(self, gang: Gang) -> GangStatus:
        """The gang's state as of the last answer of Ray."""
        self.poller.begin()
        tracked = self._track(gang, time.monotonic())
        trouble = self.poller.trouble
        if tracked.seen_at < tracked.since:
            word = "submitted" if tracked.since < math.inf else ""
            return GangStatus(f"{word}: {trouble}" if word and trouble else word, waits=True)
        seen = tracked.sighting
        return replace(seen, word=f"{seen.word}; {trouble}") if trouble and not seen.gone else seen

    def _track(self, gang: Gang, since: float) -> _Tracked:
        with self._lock:
            tracked = self._tracked.get(gang.name)
            if tracked is None:  # `observe` gets gangs that another server started.
                tracked = self._tracked[gang.name] = _Tracked(gang, since)
                self.poller.nudge()
            tracked.gang = gang
            return tracked

    # --- stop -------------------------------------------------------------------------------------------------
    def stop(self, name: str) -> None:
        """Waits a moment for nodes whose agents leave, then has a Ray job end the others.

        Lost machines are left alone: the attempt is over, so every server refuses an agent that continues there. Raises
        UnreachableError while something is left.
        """
        deadline = time.monotonic() + self.leave_s
        while time.monotonic() < deadline and self._gangs.is_left(name):
            self.poller.wait(END_PAUSE_S)
        deadline, pause = time.monotonic() + END_S, END_PAUSE_S
        while left := self._gangs.end(name):
            if time.monotonic() >= deadline:
                raise UnreachableError(left)
            time.sleep(pause)
            pause = min(MAX_END_PAUSE_S, pause * 1.3)  # A failing end job isn't submitted again at once.
        failpoint("engine.cancelled")
        self._forget(name)

    def _forget(self, gang: str) -> None:
        with self._lock:
            self._tracked.pop(gang, None)

    def sweep(self, wanted: Wanted) -> list[str]:
        """Begins to end all other gangs; without an answer of the dashboard, as soon as it answers."""
        try:
            surplus = sorted(self._gangs.names() - wanted())
            self._wanted = wanted
            for name in surplus:
                self._gangs.end(name)
            for name in surplus:
                self.stop(name)
        except DrumbeatError as error:
            self._wanted, self._must_sweep = wanted, True
            self.poller.begin()
            raise EngineError(error.what, where=error.where, fix=error.fix) from error
        return surplus

    def close(self) -> None:
        """Stops polling, and closes the connections."""
        self.poller.close()
        self._dashboard.close()

    # --- asking -----------------------------------------------------------------------------------------------
    def _look(self) -> None:
        began = time.monotonic()
        due = [one for one in list(self._tracked.values()) if one.since <= began]
        # The cluster may have been restarted since its last gang: a new gang belongs to the current session.
        if self._cluster is None or not self._session or not all(one.session for one in due):
            self._session = self._dashboard.session()
        cluster = self._cluster = self._gangs.look()
        for tracked in due:
            self._look_at(tracked, cluster, began)
        if began - self._judged_at > JUDGE_INTERVAL_S or self._must_sweep:
            self._judged_at = began
            self._end_unwanted()
        # This comes last: a cluster that refuses this job may accept others.
        if self._is_elastic and not self._survey.is_over:
            self._survey.step()

    def _look_at(self, tracked: _Tracked, cluster: ClusterView, began: float) -> None:
        view = self._gangs.view(tracked.gang, cluster)
        if not view.actors and view.group is None and view.job is None and self._has_restarted(tracked):
            # Its agents may continue: they report that themselves, or are silent for too long.
            tracked.sighting = GangStatus("the Ray cluster was restarted, and remembers nothing of what ran before")
        else:
            tracked.session = tracked.session or self._session
            tracked.sighting = judged(view, len(tracked.gang.slots), self._starting())
            self._note_start(tracked, view)
            if view.must_start:
                self._gangs.submit(tracked.gang)
        tracked.seen_at = began

    def _starting(self) -> str:
        """A message that machines are being started for a waiting group; "" = none are."""
        if self._survey.autoscaler is None:
            return ""
        usual_s = self._start_times.usual_s()
        return "Ray's autoscaler is starting machines" + (
            f", which usually takes {format_time(usual_s)} here" if usual_s else ""
        )

    def _note_start(self, tracked: _Tracked, view: GangView) -> None:
        """Records how long machines took to start, for a group that waited for some."""
        if view.is_waiting:
            tracked.waits_since = tracked.waits_since or time.time()
        elif view.machines and tracked.waits_since is not None:
            starts = [(view.nodes[one].get("start_time_ms") or 0) / 1000 for one in view.machines if one in view.nodes]
            took = max(starts, default=0.0) - tracked.waits_since
            tracked.waits_since = None
            if took > 0:
                self._start_times.add(took)

    def _has_restarted(self, tracked: _Tracked) -> bool:
        self._session = self._dashboard.session()
        return tracked.session not in ("", self._session)

    def _end_unwanted(self) -> None:
        """Ends gangs that no job wants: a start that was given up may be carried out after the stop."""
        names = self._gangs.names()
        self._gangs.tidy({*names, *self._tracked})
        if self._wanted is None:
            return
        leftovers = unwanted({*names, *self._tracked}, self._wanted)
        for name in leftovers:
            self._forget(name)
        left = [name for name in sorted(leftovers & names) if self._gangs.end(name)]
        self._must_sweep = bool(left)

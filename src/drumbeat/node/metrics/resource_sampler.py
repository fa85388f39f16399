"""The thread that logs the resources of a node and its ranks as metrics, at an interval that suits the job's size.

The job's key `system_metrics`, with a default in `jobfile/job/extensions.py`, turns it off.
"""

from __future__ import annotations

import threading
import time

from drumbeat.model.agent import Enrolment
from drumbeat.model.metrics import SYSTEM, MetricRecord, Point, PointsLogged, node_rank
from drumbeat.model.mlflow_calls import MlflowRefusal
from drumbeat.model.plan import RankTable
from drumbeat.node.metrics.endpoint import MetricsEndpoint
from drumbeat.node.metrics.folder import MetricsFolder
from drumbeat.node.metrics.resources import ResourceProbe, Values

INTERVAL_S = 5.0
_POINTS_PER_S = 500
"""The points per second of all nodes of a large job together."""
_POINTS_OF_NODE, _POINTS_OF_RANK = 8, 5


def interval_s(plan: RankTable) -> float:
    """Returns the seconds between two samples of each node."""
    points = _POINTS_OF_NODE * plan.nodes + _POINTS_OF_RANK * plan.world_size
    return max(INTERVAL_S, points / _POINTS_PER_S)


class ResourceSampler:
    """Samples while ranks run; the agent writes their supervisor's pid to the folder."""

    def __init__(self, endpoint: MetricsEndpoint, folder: MetricsFolder, enrolment: Enrolment) -> None:
        self._endpoint, self._folder, self._node = endpoint, folder, enrolment.node
        self._interval_s = interval_s(enrolment.plan)
        self._resources = ResourceProbe(enrolment.root, enrolment.gpus)
        self._step = 0

    def begin(self) -> None:
        """Starts the thread."""
        threading.Thread(target=self._run, name="resources", daemon=True).start()

    def _run(self) -> None:
        while True:
            time.sleep(self._interval_s)
            if supervisor := self._folder.supervisor_pid():
                self._sample(supervisor)

    def _sample(self, supervisor: int) -> None:
        try:
            node, ranks = self._resources.sample(supervisor)
        except (OSError, KeyError, ValueError):
            return  # This machine doesn't show it.
        if not ranks:
            return
        at_ms, run = time.time_ns() // 1_000_000, self._endpoint.runs.job_run
        self._step += 1

        def record(rank: int, values: Values) -> MetricRecord:
            points = (Point(SYSTEM + name, round(value, 3), self._step, at_ms) for name, value in values.items())
            return PointsLogged(run, rank, tuple(points))

        records = [record(node_rank(self._node), node), *(record(rank, values) for rank, values in ranks.items())]
        try:
            self._endpoint.keep(tuple(records))
        except MlflowRefusal:
            return  # The disk is full; the ranks get that error themselves.

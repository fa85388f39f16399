"""Watches the records of a node's ranks for the conditions of their job. Pure: time is that of the points.

What follows from it is decided in `core/lifecycle/early_end.py`, for all nodes, and by the agent alone while the server
is away (`node/agent/next_step.py`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from drumbeat.model.conditions import ANY_RANK, ConditionKind, ConditionState, JobCondition, format_time
from drumbeat.model.metrics import SYSTEM, MetricRecord, Point, PointsLogged, node_rank

MAX_GAP_MS = 300_000
"""A pause between two samples of the GPUs after which their time counts from the start: no ranks ran."""

_GPU, _PERCENT = f"{SYSTEM}gpu_", "_percent"
_OTHER_SHARE = "_memory_percent"


@dataclass
class _Series:
    """The values of one metric, in one run and by one rank."""

    count: int = 0
    last_step: int | None = None
    is_true: bool = False
    best: Point | None = None
    since_best: int = 0

    is_behind: bool = False
    """Whether the last step was reported before: ranks that start again repeat those since their checkpoint."""

    def take(self, step: int) -> bool:
        """Records a step; returns whether it was reported before. A script may give all its values the same one."""
        if self.last_step is None or step != self.last_step:
            self.is_behind = self.last_step is not None and step < self.last_step
        if not self.is_behind:
            self.count, self.last_step = self.count + 1, step
        return self.is_behind


@dataclass
class _Watched:
    """One condition with what was seen of it."""

    number: int
    condition: JobCondition
    series: dict[tuple[str, int], _Series] = field(default_factory=dict[tuple[str, int], _Series])
    times: int = 0
    is_met: bool = False
    sentence: str = ""
    low_since_ms: int | None = None
    sampled_ms: int = 0

    @property
    def state(self) -> ConditionState:
        return ConditionState(self.number, self.times, self.is_met, self.sentence)

    def become(self, sentence: str, *, is_met: bool) -> None:
        """Records what is so now. sentence: why, where it is met."""
        if is_met and not self.is_met:
            self.times, self.sentence = self.times + 1, sentence
        self.is_met = is_met


class ConditionWatch:
    """The conditions on metrics of one node. The same records give the same states whenever they are read."""

    def __init__(self, conditions: Sequence[JobCondition], node: int) -> None:
        watched = (_Watched(number, one) for number, one in enumerate(conditions) if one.kind is not ConditionKind.IDLE)
        self._watched, self._node_rank = tuple(watched), node_rank(node)

    @property
    def states(self) -> tuple[ConditionState, ...]:
        """Of the conditions that were ever met here."""
        return tuple(one.state for one in self._watched if one.times)

    def take(self, records: Iterable[MetricRecord]) -> None:
        """Records what ranks and the node itself have logged."""
        if not self._watched:
            return
        for record in records:
            if isinstance(record, PointsLogged):
                for one in self._watched:
                    if one.condition.kind is ConditionKind.GPU_BELOW:
                        self._take_sample(one, record)
                    else:
                        _take_points(one, record)

    def _take_sample(self, watched: _Watched, record: PointsLogged) -> None:
        if record.rank != self._node_rank:
            return
        shares = [one for one in record.points if _is_gpu_share(one.name) and math.isfinite(one.value)]
        if not shares:
            return
        at_ms, mean = shares[0].at_ms, sum(one.value for one in shares) / len(shares)
        if at_ms - watched.sampled_ms > MAX_GAP_MS or mean >= watched.condition.limit:
            watched.low_since_ms = None
        watched.sampled_ms = at_ms
        if mean < watched.condition.limit and watched.low_since_ms is None:
            watched.low_since_ms = at_ms
        low_s = 0.0 if watched.low_since_ms is None else (at_ms - watched.low_since_ms) / 1000
        limits = f"{watched.condition.limit:g} % for {format_time(watched.condition.lasting_s)}"
        is_met = watched.low_since_ms is not None and low_s >= watched.condition.lasting_s
        watched.become(f"the use of the GPUs was below {limits} (now {mean:.3g} %)", is_met=is_met)


def _is_gpu_share(name: str) -> bool:
    return name.startswith(_GPU) and name.endswith(_PERCENT) and not name.endswith(_OTHER_SHARE)


def _take_points(watched: _Watched, record: PointsLogged) -> None:
    condition = watched.condition
    if record.rank < 0 or condition.rank not in (ANY_RANK, record.rank):
        return
    for point in record.points:
        if point.name != condition.metric:
            continue
        series = watched.series.setdefault((record.run, record.rank), _Series())
        is_repeated = series.take(point.step)
        series.is_true = _is_true(condition, series, point, is_repeated=is_repeated) and series.count > condition.delay
        is_met = any(one.is_true for one in watched.series.values())
        watched.become(_sentence(condition, series, point, record.rank), is_met=is_met)


def _is_true(condition: JobCondition, series: _Series, point: Point, *, is_repeated: bool) -> bool:
    value, limit = point.value, condition.limit
    match condition.kind:
        case ConditionKind.NAN:
            return math.isnan(value)
        case ConditionKind.NOT_FINITE:
            return not math.isfinite(value)
        case ConditionKind.ABOVE:
            return value > limit
        case ConditionKind.BELOW:
            return value < limit
        case _:
            return _is_no_better(condition, series, point, is_repeated=is_repeated)


def _is_no_better(condition: JobCondition, series: _Series, point: Point, *, is_repeated: bool) -> bool:
    if _is_better(condition, series.best, point):
        series.best, series.since_best = point, 0
    elif not is_repeated and series.count > condition.delay:
        series.since_best += 1
    return series.since_best >= condition.reports


def _is_better(condition: JobCondition, best: Point | None, point: Point) -> bool:
    if math.isnan(point.value):
        return False
    if best is None:
        return True
    gain = point.value - best.value if condition.is_higher_better else best.value - point.value
    return gain > condition.min_delta if condition.min_delta else gain > 0


def _sentence(condition: JobCondition, series: _Series, point: Point, rank: int) -> str:
    where = f"at step {point.step:,}, rank {rank}"
    if condition.kind is ConditionKind.NO_BETTER:
        best = f"best {series.best.value:.6g} at step {series.best.step:,}" if series.best else "no report was a number"
        return f"{condition.metric} no better for {condition.reports} reports ({best})"
    if condition.kind in (ConditionKind.NAN, ConditionKind.NOT_FINITE):
        what = "is not a number" if math.isnan(point.value) else "is infinite"
        return f"{condition.metric} {what} ({where})"
    return f"{condition.metric} is {point.value:.6g}, {condition.kind} {condition.limit:g} ({where})"

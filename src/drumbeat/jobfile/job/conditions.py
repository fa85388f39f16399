"""The keys `stop_when`, `notify_when` and `idle_after`, and the conditions that the nodes of a job watch for them.

What meets a condition is decided in `node/metrics/conditions.py` and `node/agent/idle_watch.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, StrictInt

from drumbeat.jobfile.reading.error_messages import shown
from drumbeat.jobfile.reading.field_types import Count, Duration, Filled, Number, Tally, Wait, complaint
from drumbeat.jobfile.reading.model import AnyCase, Contradiction, Model
from drumbeat.model.conditions import ANY_RANK, ConditionAction, ConditionKind, JobCondition
from drumbeat.model.primary_metrics import Goal, goal_of, parse_goal

MAX_CONDITIONS, MAX_RANKS = 50, 1_000_000
_WARNING_SHARE, _MAX_WARNING_S = 0.2, 600.0
"""How long before its end an idle job is warned of: a share of the time, and the most."""

_QUERY = re.compile(
    r"""metrics?\.(?: "(?P<double>[^"]+)" | `(?P<back>[^`]+)` | (?P<plain>[^\s"'`()<>=!~,]+) )
    \s* (?P<sign><|>|==?) \s* (?P<value>\S+)""",
    re.VERBOSE,
)
_EXAMPLES = "Write metric.NAME < LIMIT, metric.NAME > LIMIT, metric.NAME = nan, or a mapping."


def _read(value: object) -> object:
    """Returns the mapping that a text like `metric.val/loss < 0.1` stands for."""
    if not isinstance(value, str):
        return value
    match = _QUERY.fullmatch(value.strip())
    if match is None:
        raise complaint(f"{shown(value)} is no condition", _EXAMPLES)
    name = match["double"] or match["back"] or match["plain"]
    if match["sign"] in ("=", "=="):
        if match["value"].lower() != "nan":
            raise complaint(f"{shown(value)} is no condition: a metric is compared with nan only by =", _EXAMPLES)
        return {"metric": name, "is": "nan"}
    try:
        limit = float(match["value"])
    except ValueError:
        raise complaint(f"{shown(match['value'])} is no number", _EXAMPLES, match["value"]) from None
    return {"metric": name, "below" if match["sign"] == "<" else "above": limit}


def _rank(value: object) -> object:
    is_rank = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < MAX_RANKS
    if not (is_rank or value == "any"):
        raise complaint(f"expected the number of a rank, or `any`, got {shown(value)}")
    return value


class ConditionSettings(Model):
    """One condition: a metric and what it must be, or the use of the GPUs.

    A text in the language of `drumbeat list --where` stands for the most common ones: `metric.val/loss < 0.1`,
    `metric.loss > 100`, `metric.loss = nan`.
    """

    metric: Filled | None = Field(default=None, description="Name of the metric, exactly as the script logs it.")
    equals: Annotated[Literal["nan", "not_finite"], AnyCase()] | None = Field(
        default=None,
        alias="is",
        description="`nan`: a value is not a number. `not_finite`: it is not a number, or infinite.",
    )
    above: Number | None = Field(default=None, description="A value is above this limit.")
    below: Number | None = Field(default=None, description="A value is below this limit.")
    no_better_for: Count | None = Field(
        default=None,
        description="So many reports in a row were no better than the best one before. Steps that are reported again "
        "after a restart don't count a second time.",
    )
    min_delta: Wait = Field(
        default=0.0, description="With `no_better_for`: the least by which a report must be better."
    )
    goal: Annotated[Literal["maximize", "minimize", "max", "min"], AnyCase()] | None = Field(
        default=None,
        description="With `no_better_for`: whether larger or smaller values are better. When not set, it is the goal "
        "of `primary_metric` where that is this metric; else the name decides: an `accuracy` is better high.",
    )
    rank: Annotated[StrictInt | Literal["any"], BeforeValidator(_rank)] | None = Field(
        default=None,
        description="The rank whose values count, or `any`. By default `0` for `no_better_for`, else `any`.",
    )
    delay_evaluation: Tally = Field(
        default=0, description="Number of first reports of each rank that can't meet the condition."
    )
    gpu_below: Annotated[Number, Field(gt=0, le=100)] | None = Field(
        default=None,
        description="Percent: on every node, the mean use of the job's GPUs is below it, for the time in `for`.",
    )
    lasting: Duration | None = Field(
        default=None, alias="for", description="With `gpu_below`: for how long, in seconds, or like `30m` or `1h30m`."
    )

    def contradictions(self) -> Iterator[Contradiction]:
        kinds = [name for name, value in self._kinds().items() if value is not None]
        if len(kinds) != 1:
            what = f"{' and '.join(f'`{one}`' for one in kinds)} are two conditions" if kinds else "it has no condition"
            fix = "Write one item for each." if kinds else "Give it one of is, above, below, no_better_for, gpu_below."
            yield Contradiction((kinds[1],) if kinds else (), what, fix)
            return
        is_of_gpus = kinds == ["gpu_below"]
        if is_of_gpus and self.lasting is None:
            yield Contradiction((), "`gpu_below` needs a time", "Add one: `for: 30m`.")
        if not is_of_gpus and self.metric is None:
            yield Contradiction((), f"`{kinds[0]}` needs a metric", "Add its name: `metric: val/loss`.")
        of_metrics = ("metric", "rank", "delay_evaluation")
        of_reports = ("min_delta", "goal")
        misplaced = [*(of_metrics if is_of_gpus else ("lasting",)), *(() if self.no_better_for else of_reports)]
        for name in misplaced:
            if name in self.model_fields_set:
                key = "for" if name == "lasting" else name
                yield Contradiction((key,), f"`{key}` has no meaning beside `{kinds[0]}`", "Leave it out.")

    def _kinds(self) -> dict[str, object]:
        return {
            "is": self.equals,
            "above": self.above,
            "below": self.below,
            "no_better_for": self.no_better_for,
            "gpu_below": self.gpu_below,
        }

    def known_goal(self, primary: tuple[str, Goal | None]) -> Goal | None:
        """Returns whether high or low values of its metric are better; None = unknown. primary: the job's metric."""
        own = parse_goal(self.goal) if self.goal else None
        of_primary = primary[1] if primary[0] == self.metric else None
        return own or of_primary or goal_of(self.metric or "")

    def plan(self, action: ConditionAction, primary: tuple[str, Goal | None]) -> JobCondition:
        """Returns the condition with every default filled in."""
        if self.gpu_below is not None:
            return JobCondition(action, ConditionKind.GPU_BELOW, limit=self.gpu_below, lasting_s=self.lasting or 0.0)
        rank = self.rank if self.rank is not None else 0 if self.no_better_for else "any"
        kind, limit = self._kind()
        return JobCondition(
            action,
            kind,
            metric=self.metric or "",
            limit=limit,
            reports=self.no_better_for or 0,
            min_delta=self.min_delta,
            is_higher_better=self.known_goal(primary) == "maximize",
            rank=ANY_RANK if rank == "any" else rank,
            delay=self.delay_evaluation,
        )

    def _kind(self) -> tuple[ConditionKind, float]:
        if self.equals is not None:
            return (ConditionKind.NAN if self.equals == "nan" else ConditionKind.NOT_FINITE), 0.0
        if self.no_better_for is not None:
            return ConditionKind.NO_BETTER, 0.0
        return (ConditionKind.ABOVE, self.above) if self.above is not None else (ConditionKind.BELOW, self.below or 0.0)


ConditionItem = Annotated[ConditionSettings, BeforeValidator(_read)]
ConditionList = Annotated[list[ConditionItem], Field(max_length=MAX_CONDITIONS)]


class ConditionKeys(Model):
    """When a job ends early, and when someone is notified while it runs."""

    stop_when: ConditionList = Field(
        default_factory=list[ConditionSettings],
        description="Conditions; when one is met, the job ends well: its ranks get SIGTERM and the time `grace_s` to "
        "save, what it has written is kept, its state is `completed`, and it isn't retried.",
    )
    notify_when: ConditionList = Field(
        default_factory=list[ConditionSettings],
        description="Conditions; each time that one becomes true, those in `notify` are told, and so are the server's "
        "notice targets for all jobs.",
    )
    idle_after: Duration | None = Field(
        default=None,
        description="The job ends well once no user has sent anything to its services and sessions, and its processes "
        "and GPUs have done nothing, for so long; in seconds, or like `30m` or `2h`. A while before, those in `notify` "
        "are warned.",
    )


def condition_contradictions(
    keys: ConditionKeys, primary: tuple[str, Goal | None], *, has_system_metrics: bool
) -> Iterator[Contradiction]:
    """Yields what other keys of the job make of its conditions."""
    for name, conditions in (("stop_when", keys.stop_when), ("notify_when", keys.notify_when)):
        for number, one in enumerate(conditions):
            if one.no_better_for and one.known_goal(primary) is None:
                what = f"it isn't known whether high or low values of {shown(one.metric)} are better"
                yield Contradiction((name, number), what, "Add `goal: maximize` or `goal: minimize`.")
            if one.gpu_below is not None and not has_system_metrics:
                what = "the use of the GPUs isn't measured: `system_metrics` is false"
                yield Contradiction((name, number), what, "Leave out one of the two.")


def plan_conditions(keys: ConditionKeys, primary: tuple[str, Goal | None]) -> tuple[JobCondition, ...]:
    """Returns the conditions that nodes watch; of an idle job, the warning and the end."""
    stops = [one.plan(ConditionAction.STOP, primary) for one in keys.stop_when]
    notices = [one.plan(ConditionAction.NOTIFY, primary) for one in keys.notify_when]
    return (*stops, *notices, *_idle_conditions(keys.idle_after))


def _idle_conditions(after_s: float | None) -> Sequence[JobCondition]:
    if after_s is None:
        return ()
    warning_s = after_s - min(after_s * _WARNING_SHARE, _MAX_WARNING_S)
    return (
        JobCondition(ConditionAction.STOP, ConditionKind.IDLE, lasting_s=after_s),
        JobCondition(ConditionAction.NOTIFY, ConditionKind.IDLE, lasting_s=warning_s),
    )

"""The report of a rehearsal: plain records that are rendered as JSON, a page and a table. Pure."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any

from drumbeat.rehearsal.fault_costs import Cost
from drumbeat.rehearsal.observations import Observation, ObservationKind

_HARMLESS = (ObservationKind.POINTS_LOST, ObservationKind.NO_METRIC)


@dataclass(frozen=True)
class UnbrokenRow:
    """A job without a fault."""

    job: str
    seconds: float
    story: tuple[str, ...] = ()


@dataclass(frozen=True)
class RunRow:
    """A job with a fault."""

    number: int
    job: str
    fault: str
    target: str
    """The target, "" = the job had ended before."""
    state: str
    sentence: str
    restarts: int
    is_equal: bool | None
    """Whether it equals the unbroken job bit for bit; None = it wasn't hit, or can't be judged."""
    cost: Cost
    seconds: float
    differences: tuple[str, ...] = ()
    observations: tuple[Observation, ...] = ()
    story: tuple[str, ...] = ()


@dataclass(frozen=True)
class HintRow:
    """A suggested change of the script."""

    where: str
    """`train.py:41`."""
    code: str
    what: str
    fix: str
    is_observed: bool
    """Whether an observation supports it."""


@dataclass(frozen=True)
class RehearsalReport:
    """A whole rehearsal."""

    file: str
    tag: str
    """The value of the tag `rehearsal` of its jobs."""
    compute: str
    nodes: int
    ranks: int
    seed: int
    faults: tuple[str, ...]
    unbroken: tuple[UnbrokenRow, ...]
    runs: tuple[RunRow, ...]
    judged: tuple[str, ...]
    """The names of the metrics that were compared."""
    unjudged: tuple[str, ...]
    """Metrics and files that differ between the unbroken runs."""
    observations: tuple[Observation, ...]
    """Of all runs, each kind once, the most important first."""
    hints: tuple[HintRow, ...]

    @property
    def is_passed(self) -> bool:
        """Whether every run was hit and equals the unbroken job, and no observation requires a change."""
        is_equal = bool(self.runs) and all(run.is_equal for run in self.runs)
        return is_equal and all(one.kind in _HARMLESS for one in self.observations)

    @property
    def verdict(self) -> str:
        """Returns the result as a message."""
        hit = [run for run in self.runs if run.target]
        equal = [run for run in hit if run.is_equal]
        if any(one.kind is ObservationKind.NONDETERMINISTIC for one in self.observations):
            return "Even two unbroken runs differ, so a resumed run can't equal them."
        if not hit:
            return "No run was hit, because the job ends too soon. Rehearse it with more steps."
        if any(one.kind is ObservationKind.NO_STEP for one in self.observations):
            return "The script logs without a step; after a restart its values can't be compared."
        if len(equal) < len(hit):
            return f"{len(equal)} of {len(hit)} runs with a fault equal the unbroken one, bit for bit."
        if any(one.kind is ObservationKind.STARTS_OVER for one in self.observations):
            return "Runs with a fault end like the unbroken one, but they restart from the first step."
        what = "metrics and files" if self.judged else "files"
        missed = len(self.runs) - len(hit)
        note = f" In {missed} more, the fault came too late." if missed else ""
        runs = "The run with a fault equals" if len(hit) == 1 else f"All {len(hit)} runs with a fault equal"
        return f"{runs} the unbroken one, bit for bit: {what}.{note}"

    def as_json(self) -> dict[str, Any]:
        """Returns the report for other programs."""
        return {"verdict": self.verdict, "is_passed": self.is_passed, **asdict(self)}

    @property
    def unbroken_s(self) -> float:
        """The average duration of an unbroken job."""
        return fmean(row.seconds for row in self.unbroken)


def gather_observations(groups: list[list[Observation]]) -> tuple[Observation, ...]:
    """Returns the observations of all runs, one of each kind, in order of importance."""
    flat = [observation for group in groups for observation in group]
    first = {kind: next((one for one in flat if one.kind is kind), None) for kind in ObservationKind}
    return tuple(one for one in first.values() if one is not None)

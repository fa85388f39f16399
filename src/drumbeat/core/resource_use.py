"""Says how well a job uses what it holds, by what its nodes measured and what its ledger knows. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from statistics import median

from drumbeat.core.ledger_times import Stretch
from drumbeat.model.api.ledger import TimeClass
from drumbeat.model.plurals import counted

MIN_PARTS = 3
"""With fewer parts of time nothing is said: programs only start then."""
MIN_BUSY = 0.1
"""Others that do less than this, of one GPU or core, don't show that one is idle."""
IDLE_SHARE = 0.5
"""One that does less than this share of what the middle one does is idle."""
RECENT_SHARE = 8
"""The last part of this many tells who is idle now."""
MIN_SHARE = 0.05
"""Smaller shares of the time aren't named."""
LOADING_CORES, LOADING_MIB_S = 0.7, 5.0
"""Ranks that use so many cores each, or read so much, while their GPUs are idle, most likely prepare data."""
HALF = 50
"""Percent: GPUs that work less are idle rather than busy."""
MAX_NAMED = 3

WHILE: Mapping[TimeClass, str] = {
    TimeClass.PROVISION: "while nodes start",
    TimeClass.STAGE: "while code and data are moved",
    TimeClass.ENVIRONMENT: "while environments are built",
    TimeClass.START: "while ranks start",
    TimeClass.TRAIN: "in training",
    TimeClass.CHECKPOINT: "in checkpoints",
    TimeClass.LOST: "in work that was lost",
    TimeClass.STALL: "while ranks stand still",
}
"""What goes on in each class of time in which nodes are held."""

Key = tuple[str, int]
"""The name and the rank of a measurement."""
Values = Sequence[float | None]


@dataclass(frozen=True)
class Grid:
    """Equally long parts of a job's time."""

    start: datetime
    part: timedelta
    parts: int

    def time_class(self, n: int, stretches: Iterable[Stretch]) -> TimeClass | None:
        """Returns the class of the middle of a part; None = the job held no nodes then."""
        middle = self.start + (n + 0.5) * self.part
        return next((one.time_class for one in stretches if one.attempt and one.start <= middle < one.end), None)


@dataclass(frozen=True)
class SlotsOfJob:
    """The CPU slots that a job holds, or held."""

    slots: int
    is_over: bool = False


@dataclass(frozen=True)
class UseVerdict:
    """How well a job uses what it holds."""

    sentence: str
    idle: tuple[Key, ...] = ()
    """Who is idle while the others work."""


def is_busy_share(name: str) -> bool:
    """Whether a measurement of a node is the share of time in which one of its GPUs worked."""
    return name.startswith("gpu_") and name.endswith("_percent") and not name.endswith("_memory_percent")


def describe_use(
    series: Mapping[Key, Values], grid: Grid, stretches: Sequence[Stretch], held: SlotsOfJob
) -> UseVerdict:
    """Returns how well a job uses its GPUs, or else its CPU slots, and who is idle."""
    if grid.parts < MIN_PARTS:
        return UseVerdict("")
    of_ranks = {key: values for key, values in series.items() if key[1] >= 0}
    gpus = {key: values for key, values in series.items() if key[1] < 0 and is_busy_share(key[0])}
    cores = {key: values for key, values in of_ranks.items() if key[0] == "cpu_cores"}
    classes = [grid.time_class(n, stretches) for n in range(grid.parts)]
    if gpus:
        by_rank = {key: values for key, values in of_ranks.items() if key[0] == "gpu_percent"}
        rows = {key: [None if one is None else one / 100 for one in row] for key, row in (by_rank or gpus).items()}
        first = _gpus_idle(gpus, of_ranks, classes, stretches)
    else:
        rows, first = cores, _slots_used(cores, held)
    odd, who = _idle(rows, "at the end" if held.is_over else "now", is_gpu=bool(gpus))
    return UseVerdict("; ".join(one for one in (first, who) if one), odd)


def _gpus_idle(
    gpus: Mapping[Key, Values], ranks: Mapping[Key, Values], classes: Sequence[TimeClass | None],
    stretches: Sequence[Stretch],
) -> str:  # fmt: skip
    idle_s: dict[TimeClass, float] = {}
    held_s = 0.0
    for time_class in WHILE:
        length = sum(one.length.total_seconds() for one in stretches if one.attempt and one.time_class is time_class)
        inside = [n for n, one in enumerate(classes) if one is time_class]
        measured = [value for row in gpus.values() for n in inside if (value := row[n]) is not None]
        if not measured and any(one.has_ranks for one in stretches if one.time_class is time_class):
            continue  # It was too short for a measurement.
        idle_s[time_class] = length * (1 - _mean(measured) / 100 if measured else 1.0)
        held_s += length
    whole = sum(idle_s.values()) / held_s if held_s else 0.0
    shares = sorted(((seconds / held_s, one) for one, seconds in idle_s.items() if held_s), reverse=True)
    named = [f"{share:.0%} {WHILE[one]}".replace("%", " %") for share, one in shares if share >= MIN_SHARE]
    sentence = f"GPUs idle {100 * whole:.0f} % of the time"
    if named:
        sentence += f": {', '.join(named[:MAX_NAMED])}"
    return (
        sentence + _meanwhile(gpus, ranks, classes)
        if idle_s.get(TimeClass.TRAIN, 0.0) >= MIN_SHARE * held_s
        else sentence
    )


def _meanwhile(gpus: Mapping[Key, Values], ranks: Mapping[Key, Values], classes: Sequence[TimeClass | None]) -> str:
    """What ranks do in training while their GPUs are idle for more than half of the time."""
    training = [n for n, one in enumerate(classes) if one is TimeClass.TRAIN]
    idle = [n for n in training if (shares := _numbers(row[n] for row in gpus.values())) and _mean(shares) < HALF]
    if not idle:
        return ""
    use = {
        name: _mean(_numbers(row[n] for (of, _), row in ranks.items() if of == name for n in idle))
        for name in ("cpu_cores", "disk_read_mib_s")
    }
    is_loading = use["cpu_cores"] >= LOADING_CORES or use["disk_read_mib_s"] >= LOADING_MIB_S
    guess = ", most likely loading data" if is_loading else ""
    return (
        f"; while idle in training, each rank uses {use['cpu_cores']:.1f} CPU cores and reads "
        f"{use['disk_read_mib_s']:.1f} MiB/s from disks{guess}"
    )


def _slots_used(cores: Mapping[Key, Values], held: SlotsOfJob) -> str:
    used = sum(_mean(_numbers(row)) for row in cores.values())
    if not cores or not held.slots:
        return ""
    return f"ranks use {used:.1f} of {counted(held.slots, 'CPU slot')} on average ({100 * used / held.slots:.0f} %)"


def _idle(rows: Mapping[Key, Values], lately: str, *, is_gpu: bool) -> tuple[tuple[Key, ...], str]:
    """Returns who is idle while the others work: all the time, or lately."""
    parts = max((len(row) for row in rows.values()), default=0)
    for since, when in ((0, ""), (parts - max(MIN_PARTS, parts // RECENT_SHARE), f" {lately}")):
        means = {key: _mean(recent) for key, row in rows.items() if (recent := _numbers(row[since:]))}
        middle = median(means.values()) if means else 0.0
        odd = tuple(key for key, mean in means.items() if mean < IDLE_SHARE * middle)
        if odd and middle >= MIN_BUSY:
            own = _mean([means[key] for key in odd])
            text = f"{_amount(own, is_gpu=is_gpu)}, the others {_amount(middle, is_gpu=is_gpu)}"
            return odd, f"{_names(odd)} {'is' if len(odd) == 1 else 'are'} idle{when}: {text}"
    return (), ""


def _amount(value: float, *, is_gpu: bool) -> str:
    return f"{100 * value:.0f} % busy" if is_gpu else f"{value:.2f} CPU cores"


def _names(keys: Sequence[Key]) -> str:
    first = [f"rank {rank}" if rank >= 0 else f"GPU {name.split('_')[1]} of node {-1 - rank}" for name, rank in keys]
    more = len(first) - MAX_NAMED
    return ", ".join(first[:MAX_NAMED]) + (f" and {more} more" if more > 0 else "")


def _numbers(values: Iterable[float | None]) -> list[float]:
    return [one for one in values if one is not None]


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0

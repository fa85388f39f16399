"""The demo's job, unbroken and with each fault, on each engine: whether all it logs and writes is equal bit for bit.

The comparison is that of `drumbeat rehearse`.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from drumbeat.rehearsal.fault_costs import Strike, compute_cost
from drumbeat.rehearsal.file_comparison import compare_files
from drumbeat.rehearsal.job_record import CHECKPOINTS, JobRecord, collect
from drumbeat.rehearsal.metric_comparison import compare_series, find_lost_points, last_values, main_series
from tests.real.demo_job import demo_job
from tests.real.house import until
from tools.faults.engines import GROUNDS, Ground
from tools.faults.targets import HITS, Hit

LIMIT_S = 420.0
"""After which a job is given up."""
FIRST, LAST = 6, 24
"""Between which steps a fault hits."""


@dataclass(frozen=True)
class Curve:
    """A job with a fault beside the unbroken one. said: what differs, or why it couldn't be played."""

    hit: str
    engine: str
    is_equal: bool | None
    """None = it couldn't be played."""
    said: str
    step: int | None = None
    """The last step before the fault."""
    resumed: int | None = None
    """The first one after it."""
    restarts: int = 0
    attempts: int = 1
    steps: int = 0
    """Of the unbroken job."""


def play_all(engine: str, hits: Sequence[Hit], folder: Path) -> Iterator[Curve]:
    """Yields what came of each fault on an engine."""
    folder.mkdir(parents=True)
    with GROUNDS[engine](folder) as ground:
        file = demo_job(folder, ground.compute)
        unbroken = _Unbroken(*(_run(ground, file, f"unbroken-{number}") for number in (1, 2)))
        for hit in hits:
            try:
                yield _compare(engine, ground, file, hit, unbroken)
            except Exception as error:  # noqa: BLE001 (a fault that can't be played is red, and the others go on)
                yield Curve(hit.name, engine, is_equal=None, said=f"could not be played to its end: {error}")
                _cancel_all(ground)
            ground.restore()


def _run(ground: Ground, file: Path, name: str, hit: Hit | None = None) -> JobRecord:
    sets = [f"compute={(hit and hit.compute) or ground.compute}", *(hit.sets if hit else ())]
    client = ground.house.client
    client.submit(file, sets=sets, name=name)
    if hit is not None:
        at = random.Random(name).randint(FIRST, LAST)
        until(lambda: _last_step(ground, name) >= at, LIMIT_S, f"step {at}")
        hit.strike(ground, name)
    ended = client.wait(name, LIMIT_S)
    assert ended is not None, f"not at its end after {LIMIT_S:.0f} s: {client.get(name).sentence}"
    assert ended.state == "completed", ended.sentence
    return collect(client, name, ground.house.folder / "files", ground.house.folder / "none")


def _last_step(ground: Ground, name: str) -> int:
    """Returns the last step that rank 0 has logged the loss of, 0 = none."""
    job = ground.house.client.get(name)
    assert not job.has_ended, f"ended before its fault: {job.sentence}"
    series = ground.house.client.metrics(name, rank=0).series
    return max((one.last.step for one in series if one.name == "loss" and one.last), default=0)


class _Unbroken:
    """Two jobs without a fault: what a job with one is compared with. What differs between the two isn't judged."""

    def __init__(self, first: JobRecord, second: JobRecord) -> None:
        self.first = first
        assert not compare_series(first.logged, second.logged), "two jobs without a fault differ"
        self._random_files = {one.path for one in compare_files(first.files, second.files)}
        key = main_series(first.logged)
        assert key is not None, "the job has logged nothing"
        self.key, self.steps = key, len(last_values(first.logged[key]))
        assert self.steps > LAST, f"the job has {self.steps} steps only"

    def differences(self, struck: JobRecord) -> list[str]:
        """Returns what a job logged or wrote otherwise.

        A restart saves one more checkpoint where it can, and so others are the last that are kept: they are compared
        where both jobs have them.
        """
        restarted_at = struck.restarted_at((1, 1))
        lost = find_lost_points(self.first.logged, struck.logged, restarted_at) if restarted_at else []
        one_sided = {path for path in {*self.first.files} ^ {*struck.files} if path.startswith(CHECKPOINTS)}
        series = compare_series(self.first.logged, struck.logged, [one.key for one in lost])
        files = compare_files(self.first.files, struck.files, self._random_files | one_sided)
        return [*map(str, series), *map(str, files)]


def _compare(engine: str, ground: Ground, file: Path, hit: Hit, unbroken: _Unbroken) -> Curve:
    struck = _run(ground, file, f"hit-{HITS.index(hit) + 1}-{engine}", hit)
    differences = unbroken.differences(struck)
    step = resumed = None
    if restarted_at := struck.restarted_at((1, 1)):
        cost = compute_cost(struck.logged[unbroken.key], Strike(restarted_at, restarted_at, ""), restarted_at, 0.0)
        step, resumed = cost.step, cost.resumed
    return Curve(
        hit.name, engine, not differences, "; ".join(differences[:3]), step, resumed, struck.restarts,
        struck.job.attempt, unbroken.steps,
    )  # fmt: skip


def _cancel_all(ground: Ground) -> None:
    client = ground.house.client
    for job in client.list():
        if not job.has_ended:
            client.cancel(job.name, discard=True)
            client.wait(job.name, LIMIT_S)

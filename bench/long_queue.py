"""A long queue on many machines: how long one placement takes, and how long lists of many jobs take.

    python -m bench.long_queue --write docs/bench/queue.md

The loop and its store are real, with a database file; the machines and the jobs that hold them are made up.
"""

import argparse
import random
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from bench.start import describe_machine
from bench.start_report import publish
from drumbeat.core.lifecycle.events import CancelRequested
from drumbeat.core.lifecycle.job import Job
from drumbeat.core.scheduling.resource_needs import JobPolicy, Need, Slot
from drumbeat.model.api.computes import Machine
from drumbeat.model.plan import Plan
from drumbeat.model.states import Reason, State
from drumbeat.server.database import SqlStore, make_store
from drumbeat.server.database.records import Change, Submission
from drumbeat.server.jobs.job_filter import JobFilter
from drumbeat.server.loop.bus import Bus
from drumbeat.server.loop.loop import Loop
from drumbeat.server.loop.placer import Supply
from drumbeat.wiring import SystemClock
from tests.support.sample_jobs import ended, line, submission

CPUS, GPUS, RUNNING_ON_ONE = 64, 8, 4
NEEDS = (Need(1, 4), Need(1, 8, 1), Need(1, 16, 2), Need(2, 32, 4), Need(8, 64, 8), Need(1, 64, 8), Need(16, 64, 8))

HEAD = """\
# A long queue

<!-- Written by `python -m bench.long_queue`. -->

{jobs:,} jobs of {users} users wait for {machines:,} machines of {cpus} CPU slots and {gpus} GPUs, on which
{running:,} jobs run, half of them with a time limit; the waiting ones have {needs} sizes. A pass is one look at the
whole queue, with all that is written: who starts, and what is told to the jobs whose wait has changed. Each figure is
the median, in brackets the longest. The goal for a pass is 50 ms.

Machine: {machine}.

| | wall ms | CPU ms |
|---|---|---|
{rows}

## Lists of {listed:,} jobs that have ended

| | wall ms | CPU ms |
|---|---|---|
{lists}
"""


@dataclass(frozen=True)
class Times:
    """Wall and CPU milliseconds of each repetition."""

    wall: list[float]
    cpu: list[float]

    def __str__(self) -> str:
        return " | ".join(f"{sorted(some)[len(some) // 2]:.1f} ({max(some):.1f})" for some in (self.wall, self.cpu))


def timed(work: Callable[[], object], prepare: Callable[[], object] = lambda: None, repeats: int = 15) -> Times:
    """How long something takes. prepare: is called before each time, and isn't counted."""
    wall, cpu = list[float](), list[float]()
    for _ in range(repeats):
        prepare()
        begun, used = time.perf_counter(), time.process_time()
        work()
        wall.append(1000 * (time.perf_counter() - begun))
        cpu.append(1000 * (time.process_time() - used))
    return Times(wall, cpu)


class LongQueue:
    """A loop without its thread, over a database in a file."""

    def __init__(self, folder: Path, machines: int, jobs: int, users: int) -> None:
        self._random, self._users = random.Random(1), [f"user-{number}" for number in range(users)]
        self.store = make_store(folder / "drumbeat.db")
        self._now = datetime.now(UTC)
        self._fill(machines, jobs)
        self.loop = Loop(self.store, SystemClock(), Bus())
        self.loop.open()
        gpus = [tuple(f"GPU-{number}-{gpu}" for gpu in range(GPUS)) for number in range(machines)]
        supply = tuple(Machine(f"m-{number:04}", CPUS, gpus[number]) for number in range(machines))
        self.loop.furnish(Supply({"big": supply}))
        self.loop.place()

    def _fill(self, machines: int, jobs: int) -> None:
        for number in range(machines * RUNNING_ON_ONE):
            machine, at = divmod(number, RUNNING_ON_ONE)
            gpus = tuple(f"GPU-{machine}-{gpu}" for gpu in range(2 * at, 2 * at + 2))
            slot = Slot(0, f"m-{machine:04}", CPUS // RUNNING_ON_ONE, gpus)
            self._run(f"runs-{number:05}", slot, 3600.0 * (2 + number % 20) if number % 2 else None)
        for number in range(jobs):
            job = self._job(f"waits-{number:05}", self._random.choice(NEEDS))
            job = replace(job, submitted_at=self._now - timedelta(seconds=self._random.randrange(80_000)))
            self.store.submit(Submission(job.name, job, {}, (line("accepted"),)))

    def _job(self, name: str, need: Need) -> Job:
        plan = Plan(name, f"experiment-{len(name) % 7}", "command", need.nodes, 1, "python train.py", (), compute="big")
        policy = JobPolicy(timeout_s=self._random.choice((None, 3600.0, 86400.0)))
        return Job(name, plan, need, policy, self._now, user=self._random.choice(self._users))

    def _run(self, name: str, slot: Slot, limit_s: float | None) -> None:
        job = replace(self._job(name, Need(1, slot.cpus, len(slot.gpus))), policy=JobPolicy(timeout_s=limit_s))
        record, _ = self.store.submit(Submission(name, job, {}, (line("accepted"),)))
        since = self._now - timedelta(hours=1)
        state, reason = State.RUNNING, Reason.TRAINING
        runs = replace(job, state=state, reason=reason, attempt=1, slots=(slot,), started_at=since)
        self.store.commit([Change(runs, record.version, reserve=(slot,), at=since)])

    def end_one(self) -> None:
        """A job gives its slots back."""
        names = [name for name, one in self.loop.jobs.items() if name.startswith("runs-")]
        name = self._random.choice(names)
        self.store.commit([ended(self.loop.jobs[name])])
        self.loop.jobs.pop(name)

    def submit_one(self) -> None:
        """A new job comes."""
        name = f"new-{self._random.getrandbits(40)}"
        job = self._job(name, self._random.choice(NEEDS))
        self.loop.add(self.store.submit(Submission(name, job, {}, (line("accepted"),)))[0])

    def cancel_one(self) -> None:
        """A job far behind is canceled."""
        name = self._random.choice([name for name in self.loop.jobs if name.startswith("waits-")])
        self.loop.apply(name, CancelRequested("ada"))


def passes(queue: LongQueue) -> Iterator[str]:
    """What one pass takes after each kind of change."""
    place = queue.loop.place
    yield f"| a pass in which nothing has changed | {timed(place)} |"
    yield f"| after a job that ended | {timed(place, queue.end_one)} |"
    yield f"| after a job that came | {timed(place, queue.submit_one)} |"
    yield f"| after a job that was canceled | {timed(place, queue.cancel_one)} |"


def lists(store: SqlStore, count: int) -> Iterator[str]:
    """What lists of many ended jobs take."""
    for number in range(count):
        record, _ = store.submit(submission(f"old-{number:06}", experiment=f"experiment-{number % 50}"))
        store.commit([ended(record)])
    page = JobFilter(limit=50)
    for name, chosen in {
        "the newest 50": page,
        "50 from the middle": replace(page, after=f"old-{count // 2:06}"),
        "50 of an experiment": replace(page, experiments=("experiment-7",)),
        "50 that failed, of which there are none": replace(page, states=(State.FAILED,)),
    }.items():
        yield f"| {name} | {timed(lambda chosen=chosen: store.jobs(chosen))} |"
    yield f"| how many are in each state | {timed(lambda: store.count_jobs(page))} |"


def main() -> None:
    """Measures, prints, writes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--machines", type=int, default=1000)
    parser.add_argument("--users", type=int, default=50)
    parser.add_argument("--listed", type=int, default=100_000)
    parser.add_argument("--write", type=Path, metavar="FILE", help="also write the report to FILE")
    options = parser.parse_args()
    machine = describe_machine()
    with tempfile.TemporaryDirectory() as folder:
        rows = [*passes(LongQueue(Path(folder), options.machines, options.jobs, options.users))]
        store = make_store(Path(folder) / "lists.db")
        texts = [*lists(store, options.listed)]
    text = HEAD.format(
        jobs=options.jobs, users=options.users, machines=options.machines, cpus=CPUS, gpus=GPUS, needs=len(NEEDS),
        running=options.machines * RUNNING_ON_ONE, machine=machine, rows="\n".join(rows), listed=options.listed,
        lists="\n".join(texts),
    )  # fmt: skip
    publish(text, options.write)


if __name__ == "__main__":
    main()

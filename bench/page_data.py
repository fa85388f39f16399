"""What the screens of the page are measured with, written into the stores of a server before it starts."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from sqlalchemy import Connection, create_engine, insert, literal, select

from bench.page_artifacts import DRAWN, fill_artifacts
from drumbeat.core.child_jobs import SweepProgress, TrialProgress, trial_name
from drumbeat.core.lifecycle.job import Job
from drumbeat.model.metrics import ParamsLogged, Point, PointsLogged, RunCreated, experiment_id, run_id
from drumbeat.model.states import Reason, State
from drumbeat.server.database import make_store
from drumbeat.server.database.records import Submission
from drumbeat.server.home_folder.artifacts import FolderArtifacts
from drumbeat.server.metrics.tables.schema import blocks, points, series
from drumbeat.server.metrics.tables.store import make_metric_store
from tests.support.sample_jobs import submission

JOBS, TRIALS, CURVES, MILLION = 10_000, 1000, 20, 1_000_000
SWEEP, LOGGED = "tuned", "printed"
REPORTS = 100
"""Points of a trial."""
CHUNK = 1 << 20
"""Bytes of a log that arrive at once."""
EXPERIMENT = "measured"
RUNS, FIELDS, RUNS_EXPERIMENT = 2000, 15, "searched"
"""Runs of an experiment, each with so many parameters and as many metrics."""


def fill(home: Path) -> None:
    """Writes jobs, a sweep with its trials, curves and a log."""
    fill_jobs(home)
    with closing(make_metric_store(home / "metrics.db")) as store:
        store.ensure_experiment(EXPERIMENT, 0)
        trials = {trial_name(SWEEP, number): trial_value(number) for number in range(TRIALS)}
        store.write([created(name) for name in (*trials, *map(curve_name, range(CURVES)))])
        store.write([logged(name, REPORTS, value) for name, value in trials.items()])
        for batch in batches(curve_name(0)):
            store.write([batch])
        store.ensure_experiment(RUNS_EXPERIMENT, 0)
        store.write([record for number in range(RUNS) for record in searched(number)])
    multiply(home / "metrics.db")
    fill_log(home)
    fill_artifacts(home)


def fill_jobs(home: Path) -> None:
    """Writes ended jobs: the many first, so that the list begins with those that are looked at."""
    with closing(make_store(home / "drumbeat.db")) as store:
        for sent in submissions():
            store.submit(sent)


def submissions() -> Iterator[Submission]:
    """All jobs, with times of submission a minute apart."""
    now = datetime.now(UTC)
    yield from (ended(submission(f"old-{n:05}"), now - timedelta(minutes=JOBS - n)) for n in range(JOBS))
    yield from (ended(submission(curve_name(n), experiment=EXPERIMENT), now) for n in range(CURVES))
    yield from (ended(submission(run_name(n), experiment=RUNS_EXPERIMENT), now) for n in range(RUNS))
    yield ended(submission(LOGGED, experiment=EXPERIMENT), now)
    yield ended(submission(DRAWN, experiment=EXPERIMENT), now)
    yield sweep(ended(submission(SWEEP, experiment=EXPERIMENT), now))
    names = (trial_name(SWEEP, number) for number in range(TRIALS))
    yield from (ended(submission(name, experiment=EXPERIMENT, parent=SWEEP), now) for name in names)


def ended(sent: Submission, at: datetime) -> Submission:
    """A job that was submitted at that time and has run for a minute."""
    words = {"submitted_at": at, "started_at": at, "ended_at": at + timedelta(minutes=1)}
    return replace(sent, job=replace(sent.job, state=State.COMPLETED, reason=Reason.FINISHED, attempt=1, **words))


def sweep(sent: Submission) -> Submission:
    """A job as a sweep whose trials have all ended."""
    progress = SweepProgress("minimize", "loss", TRIALS, 8, trials=tuple(map(trial, range(TRIALS))), is_exhausted=True)
    job: Job = replace(sent.job, sweep=progress)
    return replace(sent, job=job)


def trial(number: int) -> TrialProgress:
    """One that has completed."""
    value = trial_value(number)
    values = {
        "rate": 10 ** (-1 - number % 40 / 10),
        "width": 32 << number % 5,
        "optimizer": ("adam", "sgd")[number % 2],
    }
    return TrialProgress(number, values, State.COMPLETED, "finished", REPORTS, value, value)


def trial_value(number: int) -> float:
    """Its result."""
    return 0.1 + (number * 7919 % 1009) / 1009


def curve_name(number: int) -> str:
    """Of the job with that curve."""
    return f"curve-{number:02}"


def run_name(number: int) -> str:
    """Of the job with that run."""
    return f"run-{number:04}"


def searched(number: int) -> list[RunCreated | ParamsLogged | PointsLogged]:
    """A run with its parameters and metrics."""
    job = run_name(number)
    values = [(number * 7919 + 104_729 * n) % 10_007 / 10_007 for n in range(FIELDS)]
    params = ParamsLogged(run_id(job), {f"p{n:02}": f"{value:.4f}" for n, value in enumerate(values)})
    metrics = (Point(f"m{n:02}", 1 - value, 1, 1) for n, value in enumerate(values))
    return [created(job, RUNS_EXPERIMENT), params, PointsLogged(run_id(job), 0, tuple(metrics))]


def created(job: str, experiment: str = EXPERIMENT) -> RunCreated:
    """The run of a job."""
    return RunCreated(run_id(job), experiment_id(experiment), job, 0, job=job)


def logged(job: str, count: int, last: float) -> PointsLogged:
    """A curve that falls to its last value."""
    falling = (Point("loss", last + 1 / (1 + step) - 1 / count, step, step) for step in range(count))
    return PointsLogged(run_id(job), 0, tuple(falling))


def batches(job: str) -> Iterator[PointsLogged]:
    """A million points that go up and down."""
    for first in range(0, MILLION, 10_000):
        batch = (Point("loss", float(step * 7919 % 100_003), step, step) for step in range(first, first + 10_000))
        yield PointsLogged(run_id(job), 0, tuple(batch))


def multiply(file: Path) -> None:
    """Gives the other curves the points of the first one; within the database, as its rows are the same but for one."""
    engine = create_engine(f"sqlite:///{file}")
    with engine.begin() as connection:
        first = connection.execute(select(series).where(series.c.run == run_id(curve_name(0)))).one()._asdict()
        for number in range(1, CURVES):
            row = {**first, "run": run_id(curve_name(number))}
            del row["id"]
            own: int = connection.execute(insert(series).values(row).returning(series.c.id)).scalar_one()
            copy_rows(connection, first["id"], own, 1 + number / CURVES)
    engine.dispose()


def copy_rows(connection: Connection, first: int, own: int, factor: float) -> None:
    """Copies points and blocks of a series, their values times the factor."""
    copied = {points: ("value",), blocks: ("low", "high")}
    for table, scaled in copied.items():
        columns = [
            literal(own) if column.name == "series" else column * factor if column.name in scaled else column
            for column in table.columns
        ]
        chosen = select(*columns).where(table.c.series == first)
        connection.execute(insert(table).from_select([column.name for column in table.columns], chosen))


def fill_log(home: Path) -> None:
    """A million lines of rank 0, as they arrive from a node."""
    artifacts, offset, text = FolderArtifacts(home), 0, bytearray()
    for number in range(MILLION):
        shown = number // 1000, number, 1 / (1 + number / 9999), number % 997
        text += b"epoch %d step %d loss %.5f samples/s %d\n" % shown
        if len(text) >= CHUNK or number == MILLION - 1:
            artifacts.append_log(LOGGED, "logs/1.1/0/0.log", offset, bytes(text))
            offset += len(text)
            text.clear()

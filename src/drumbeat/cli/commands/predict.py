"""`plan --predict`: takes or measures a step, the gradients and the network, and prints the efficiency at N nodes."""

from __future__ import annotations

import copy
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from drumbeat.cli.job_options.file_or_command import RequestedJob
from drumbeat.cli.job_options.options import PredictionOptions
from drumbeat.cli.terminal.formatting import format_size
from drumbeat.cli.terminal.json_output import print_json
from drumbeat.cli.terminal.screen import cell, fill_table, heading, make_table, pairs, show
from drumbeat.core.diagnosis.preflight import format_rate, format_time
from drumbeat.core.measured_steps import SentSample, StepPoint, sent_per_step, settled, step_s
from drumbeat.core.prediction import (
    TCP_SHARE,
    NetworkSpeed,
    Prediction,
    StepProfile,
    calibrated,
    describe_limit,
    largest_efficient,
    parse_network,
    parse_size,
    parse_time,
    predict,
)
from drumbeat.model.api.jobs import JobWithEvents
from drumbeat.model.errors import NotFoundError, RefusedError, SpecError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import RenderableType

    from drumbeat.client import Client


T = TypeVar("T")

SENT = "system/network_sent_mib_s"
MEASURED_S = 30.0
"""How long a job is measured from the end of its warm-up: at least five samples of what its node sends."""
MAX_WAIT_S = 1800.0
"""After this time a job that has logged no steps is canceled."""
_POLL_S = 1.0
_BY_HAND = "by hand"


@dataclass
class Measured:
    """The measurements so far, and their sources."""

    profile: StepProfile | None = None
    network: NetworkSpeed | None = None
    step_of_two_s: float | None = None
    sources: dict[str, str] = field(default_factory=dict[str, str])


def show_prediction(client: Client, chosen: RequestedJob, options: PredictionOptions, *, as_json: bool) -> None:
    """Prints the prediction for a job, after runs that measure the missing figures."""
    sizes = _sizes(options.sizes or "")
    measured, gradients = _given(options), _parsed(parse_size, options.gradients, "--gradients")
    ranks_per_node = client.plan(chosen.job, sets=chosen.sets).plan.processes_per_node
    profile, network = _measured(client, chosen, measured, gradients, ranks_per_node)
    measured.sources["overlap"] = "assumed"
    if measured.step_of_two_s is not None:
        profile = calibrated(profile, network, measured.step_of_two_s)
        measured.sources["overlap"] = f"by a step of two nodes, {measured.step_of_two_s * 1000:.1f} ms"
    made = [predict(profile, network, size, ranks_per_node) for size in sizes]
    prediction = Predicted(profile, network, made, measured.sources)
    if as_json:
        print_json(prediction)
    else:
        show(*render_prediction(prediction))


def _given(options: PredictionOptions) -> Measured:
    """Returns the figures that the options give."""
    measured = Measured()
    step, data = _parsed(parse_time, options.step, "--step"), _parsed(parse_time, options.data_wait, "--data-wait")
    if options.results is not None:
        measured.profile, measured.sources["step"] = _from_bench(options.results), f"measured, {options.results}"
        measured.sources["gradients"] = "four bytes for each parameter"
    if step is not None:
        before = measured.profile or StepProfile(step, 0.0)
        measured.profile, measured.sources["step"] = replace(before, step_s=step), _BY_HAND
    if data is not None and measured.profile is not None:
        measured.profile = replace(measured.profile, data_s=data)
    network = _parsed(parse_network, options.network, "--network")
    if network is not None:
        measured.network, measured.sources["network"] = network, "by hand; TCP carries 95% of the nominal rate"
    return measured


def _from_bench(file: Path) -> StepProfile:
    """Returns a step of one rank in results of `drumbeat bench`."""
    from drumbeat.bench.results import load
    from drumbeat.bench.summary import summarize

    results = load(file)
    rows = [row for row in summarize(results) if row.ranks == 1] if results else []
    if not rows or results is None:
        fix = "Name the results.json of a benchmark with --ranks 1,…"
        raise SpecError(f"{file} has no run of one rank", where="--results", fix=fix)
    row, parameters = rows[-1], results.measurements[0].parameters
    return StepProfile(row.step_ms / 1000, 4.0 * parameters, row.data_ms / 1000)


def _sizes(text: str) -> list[int]:
    try:
        sizes = [int(word) for word in text.split(",")]
    except ValueError:
        sizes = []
    if not sizes or min(sizes) < 1:
        fix = "Separate them by commas: --predict 1,2,4,8."
        raise SpecError(f"{text!r} are no numbers of nodes", where="--predict", fix=fix)
    return sizes


def _parsed(parse: Callable[[str], T], text: str | None, option: str) -> T | None:
    try:
        return None if text is None else parse(text)
    except ValueError as error:
        raise SpecError(str(error), where=option) from None


# --- runs that measure --------------------------------------------------------------------------------------------
def _measured(
    client: Client, chosen: RequestedJob, measured: Measured, gradients: float | None, ranks: int
) -> tuple[StepProfile, NetworkSpeed]:
    """Runs the job on one node, and on two where gradients or network aren't known. ranks: of each node."""
    profile, network = measured.profile, measured.network
    if profile is None:
        run = run_measured(client, chosen, 1)
        profile, measured.sources["step"] = StepProfile(step_seconds(run), 0.0), f"measured, job {run.job.name}"
    if gradients is not None:
        profile, measured.sources["gradients"] = replace(profile, gradient_bytes=gradients), _BY_HAND
    if profile.gradient_bytes and network:
        return profile, network
    two = run_measured(client, chosen, 2)
    if not profile.gradient_bytes:
        profile = replace(profile, gradient_bytes=gradient_bytes(two, ranks))
        measured.sources["gradients"] = f"by what a node sends in a step, job {two.job.name}"
    if network is None:
        network, measured.sources["network"] = measured_network(two.job), f"measured, job {two.job.name}"
        measured.step_of_two_s = step_seconds(two)
    return profile, network


@dataclass(frozen=True)
class MeasuredRun:
    """A job that ran to be measured, and its steps."""

    job: JobWithEvents
    steps: list[StepPoint]
    sent: list[SentSample]


def run_measured(client: Client, chosen: RequestedJob, nodes: int) -> MeasuredRun:
    """Runs the job until enough of its steps are measured, then cancels it."""
    job, sets = measured_job(chosen.job, chosen.sets, nodes)
    name = client.submit(job, sets=sets).name
    count = "one node" if nodes == 1 else f"{nodes} nodes"
    print(f"job {name} measures steps on {count}; it is canceled when they are measured", file=sys.stderr, flush=True)
    try:
        steps = _await_steps(client, name)
        run = MeasuredRun(client.get(name), steps, _sent(client, name))
    finally:
        if not client.get(name).has_ended:
            client.cancel(name, discard=True)
    return run


def _await_steps(client: Client, name: str) -> list[StepPoint]:
    deadline = time.monotonic() + MAX_WAIT_S
    while True:
        job, steps = client.get(name), _steps(client, name)
        kept = settled(steps)
        if (kept and kept[-1].at - kept[0].at > MEASURED_S) or (kept and job.has_ended):
            return steps
        if job.has_ended or time.monotonic() > deadline:
            what = f"job {name} logged too few steps to measure one: {job.verdict.sentence if job.verdict else ''}"
            fix = "Log a metric in each step (drumbeat.log(loss=…, step=n)), or give the time: --step 420ms."
            raise RefusedError(what.rstrip(": "), where="--predict", fix=fix)
        time.sleep(_POLL_S)


def _steps(client: Client, name: str) -> list[StepPoint]:
    """Returns the steps that rank 0 has logged of its first metric."""
    primary = client.get(name).primary
    if primary is None:
        return []
    return [StepPoint(one.at.timestamp(), one.step) for one in client.points(name, primary.name)]


def _sent(client: Client, name: str) -> list[SentSample]:
    """Returns what node 0 has sent."""
    try:
        points = list(client.points(name, SENT, rank=-1))
    except NotFoundError:
        return []
    return [SentSample(one.at.timestamp(), float(one.value) * (1 << 20)) for one in points]


def step_seconds(run: MeasuredRun) -> float:
    """Returns the seconds of a step. Raises RefusedError."""
    length = step_s(run.steps)
    if not length:
        raise RefusedError(f"the steps of job {run.job.name} came all at once", fix="Give the time: --step 420ms.")
    return length


def gradient_bytes(two: MeasuredRun, ranks_per_node: int) -> float:
    """Returns the gradients' bytes: a ring over R ranks sends 2(R-1)/R of them out of each node, with their headers."""
    sent = sent_per_step(two.steps, two.sent)
    if not sent:
        what = f"what job {two.job.name} sends in a step could not be measured"
        raise RefusedError(what, where="--predict", fix="Give the size of the gradients: --gradients 100MB.")
    ranks = 2 * ranks_per_node
    return sent * TCP_SHARE / (2 * (ranks - 1) / ranks)


def measured_network(job: JobWithEvents) -> NetworkSpeed:
    """Returns what the pre-flight of two nodes has measured. Raises RefusedError."""
    links = [one for one in (job.preflight.links if job.preflight else ()) if one.out_bits_per_s > 0]
    if not links:
        what = f"job {job.name} could not measure the link between its nodes"
        raise RefusedError(what, where="--predict", fix="Give the network: --network 1gbit/200us.")
    link = links[0]
    return NetworkSpeed(min(link.out_bits_per_s, link.in_bits_per_s), link.round_trip_us / 1e6)


EFFICIENT = 0.8


@dataclass(frozen=True)
class Predicted:
    """Predictions with the figures that they use."""

    profile: StepProfile
    network: NetworkSpeed
    predictions: Sequence[Prediction]
    sources: dict[str, str]
    """Where the step, the gradients, the network and the overlap come from, in words."""


def render_prediction(result: Predicted) -> Iterator[RenderableType]:
    """Yields the figures, and a row for each number of nodes."""
    profile, network = result.profile, result.network
    yield heading("What the prediction rests on")
    given = {
        "step": f"{profile.step_s * 1000:.1f} ms on one node, of which {profile.data_s * 1000:.1f} ms wait for data",
        "gradients": format_size(round(profile.gradient_bytes)),
        "network": f"{format_rate(network.bits_per_s)}, {format_time(network.round_trip_s * 1e6)} for a round trip",
        "overlap": f"{profile.overlap:.0%} of the computation can hide gradients",
    }
    yield pairs([(name, f"{text} ({result.sources[name]})") for name, text in given.items()])
    yield heading("Prediction")
    table = make_table(">nodes", ">ranks", ">step ms", ">sync ms", ">not hidden ms", ">efficiency", "limited by")
    yield fill_table(table, (_row(one, profile) for one in result.predictions))
    best = largest_efficient(result.predictions, EFFICIENT)
    largest = max((one.nodes for one in result.predictions), default=1)
    if best is not None and best.nodes < largest:
        yield cell(f"Up to {best.nodes} of these numbers of nodes, efficiency stays at {EFFICIENT:.0%} or above.")


def _row(one: Prediction, profile: StepProfile) -> tuple[object, ...]:
    times = (f"{seconds * 1000:.1f}" for seconds in (one.step_s, one.sync_s, one.exposed_s))
    return (one.nodes, one.ranks, *times, f"{one.efficiency:.0%}", describe_limit(one, profile))


Job = Path | dict[str, object]


def measured_job(job: Job, sets: Sequence[str], nodes: int) -> tuple[Job, list[str]]:
    """Returns the job and its overrides for so many nodes. The pre-flight measures the network between them."""
    changes: dict[str, Any] = {
        "resources.instance_count": nodes,
        "drumbeat.max_retries": 0,
        "drumbeat.preflight": nodes > 1,
        "drumbeat.system_metrics": True,
    }
    if isinstance(job, Path):
        return job, [*sets, *(f"{key}={str(value).lower()}" for key, value in changes.items())]
    changed = copy.deepcopy(job)
    for key, value in changes.items():
        table, _, name = key.partition(".")
        inner = changed.get(table)
        changed[table] = {**(inner if isinstance(inner, Mapping) else {}), name: value}
    return changed, list(sets)

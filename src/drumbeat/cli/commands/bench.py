"""`bench`: images per second by the number of ranks, measured by real jobs."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from drumbeat.bench.cases import (
    BACKENDS,
    ENVIRONMENTS,
    RESULT,
    SYNTHETIC,
    Benchmark,
    Case,
    check,
    job,
    lab,
    lab_name,
)
from drumbeat.bench.cases import cases as cases_of
from drumbeat.cli.terminal.connect import connect
from drumbeat.cli.terminal.json_output import print_json
from drumbeat.cli.terminal.screen import cell, fill_table, make_table, show
from drumbeat.model.errors import EngineError, Problem, SpecError
from drumbeat.model.states import State

if TYPE_CHECKING:
    from drumbeat.bench.results import Measurement, Results
    from drumbeat.bench.summary import ScalingRow
    from drumbeat.client import Client

RESULTS, PAGE, CHART = "results.json", "report.md", "scaling"


def bench(
    model: Annotated[str, typer.Option(help="resnet50, resnet101, resnet152 or mobilenet_v2.")] = "resnet50",
    framework: Annotated[str, typer.Option(help="pytorch, keras or tensorflow.")] = "pytorch",
    backend: Annotated[str, typer.Option(help="ddp or horovod; the framework's own by default.")] = "",
    ranks: Annotated[str, typer.Option(metavar="N,…", help="Numbers of ranks, the smallest first.")] = "1,2,4",
    ranks_per_node: Annotated[int, typer.Option(help="Ranks on each node.")] = 1,
    data: Annotated[
        str, typer.Option(metavar="synthetic|FOLDER", help="Synthetic images, or a folder of class folders of JPEG.")
    ] = SYNTHETIC,
    compute: Annotated[str, typer.Option(help="Compute on which the jobs run.")] = "local",
    network: Annotated[
        str,
        typer.Option(metavar="RATE,…", help="Measure on netlabs with these bandwidths, like 200mbit,1gbit,unshaped."),
    ] = "",
    batch_size: Annotated[int, typer.Option(help="Images of each rank in a step.")] = 64,
    image_size: Annotated[int, typer.Option(help="Height and width of the images.")] = 224,
    steps: Annotated[int, typer.Option(help="Steps of each block that is measured.")] = 10,
    repeats: Annotated[int, typer.Option(help="Jobs for each number of ranks.")] = 3,
    threads: Annotated[int, typer.Option(help="CPU threads of each rank.")] = 1,
    workers: Annotated[int, typer.Option(help="Processes of each rank that read images.")] = 1,
    precision: Annotated[str, typer.Option(help="fp32 or bf16 (PyTorch).")] = "fp32",
    channels_last: Annotated[bool, typer.Option("--channels-last", help="The layout for GPUs (PyTorch).")] = False,
    compiled: Annotated[bool, typer.Option("--compile", help="Compile the network (PyTorch).")] = False,
    to: Annotated[
        Path,
        typer.Option(metavar="FOLDER", help="Folder of the results; a benchmark that was interrupted resumes there."),
    ] = Path("bench-results"),
    picture: Annotated[str, typer.Option(help="Format of the chart: png or svg.")] = "png",
    as_json: Annotated[bool, typer.Option("--json", help="Print the results as JSON.")] = False,
) -> None:
    """Measure training: images per second by the number of ranks, and what a step is made of.

    Each case is a job that trains an image classifier for some steps. Cases are repeated in turns, and measured cases
    are kept in the folder: the same command resumes where it was interrupted.
    """
    from drumbeat.bench.machine_load import describe_machine
    from drumbeat.bench.results import load_or_begin

    wanted = Benchmark(
        model,
        framework,
        backend or BACKENDS.get(framework, ("ddp",))[0],
        _numbers(ranks),
        ranks_per_node,
        data if data == SYNTHETIC else str(Path(data).absolute()),
        compute,
        tuple(word.strip() for word in network.split(",") if word.strip()),
        batch_size,
        image_size,
        steps,
        repeats,
        threads,
        workers,
        precision,
        channels_last,
        compiled,
    )
    check(wanted)
    _check_local(wanted, picture)
    results = load_or_begin(to / RESULTS, wanted, describe_machine())
    try:
        _measure(connect(), results, to, is_quiet=as_json)
    finally:
        _report(results, to, picture, as_json=as_json)


def _numbers(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(word) for word in text.split(","))
    except ValueError:
        what = f"{text!r} aren't valid numbers of ranks"
        raise SpecError(what, where="--ranks", fix="Separate them by commas: --ranks 1,2,4.") from None


def _check_local(wanted: Benchmark, picture: str) -> None:
    problems: list[Problem] = []
    if picture not in ("png", "svg"):
        problems.append(Problem(f"{picture!r} is no format of the chart", "--picture", "Choose png or svg."))
    if wanted.data != SYNTHETIC and not Path(wanted.data).is_dir():
        fix = "Name a folder with a folder for each class, or leave --data out."
        problems.append(Problem(f"{wanted.data} isn't a folder", "--data", fix))
    if wanted.networks and wanted.compute != "local":
        fix = "Leave one of the two out."
        problems.append(Problem("netlabs are computes of their own, beside --compute", "--network", fix))
    if problems:
        raise SpecError("the benchmark is invalid", fields=tuple(problems))


def _measure(client: Client, results: Results, to: Path, *, is_quiet: bool) -> None:
    """Runs what isn't measured yet."""
    from drumbeat.bench.recipe import recipe_folder

    wanted, code = results.benchmark, recipe_folder()
    left = [case for case in cases_of(wanted) if case not in results.done()]
    if environment := ENVIRONMENTS.get((wanted.framework, wanted.backend)):
        client.create_environment(code / environment[1])
    labs = list(dict.fromkeys(case.network for case in left if case.network))
    try:
        for name in labs:
            client.create_compute(lab(wanted, name))
        for number, case in enumerate(left, 1):
            measurement = _run(client, results, case, code)
            results.measurements.append(measurement)
            results.save(to / RESULTS)
            if not is_quiet:
                print(f"{number}/{len(left)}  {_line(measurement)}", flush=True)
    finally:
        for name in labs:
            _remove(client, lab_name(name))


def _remove(client: Client, name: str) -> None:
    from contextlib import suppress

    from drumbeat.model.errors import DrumbeatError

    with suppress(DrumbeatError):  # It is in use while a job of an interrupted run still ends; the next run removes it.
        client.delete_compute(name)


def _run(client: Client, results: Results, case: Case, code: Path) -> Measurement:
    from drumbeat.bench.machine_load import busy_share
    from drumbeat.bench.results import read_measurement

    busy = busy_share()
    name = client.submit(job(results.benchmark, case, code)).name
    try:
        ended = client.wait(name)
    except KeyboardInterrupt:
        client.cancel(name)
        raise
    if ended is None or ended.state != State.COMPLETED:
        sentence = ended.sentence if ended else "it hasn't ended"
        fix = f"See its log: drumbeat logs {name}. The measured cases are kept; the same command resumes."
        raise EngineError(f"{case}: job {name} didn't complete: {sentence}", where="drumbeat bench", fix=fix)
    return read_measurement(case, name, _measured(client, name), busy)


def _measured(client: Client, name: str) -> dict[str, Any]:
    """Returns what rank 0 of a job has written."""
    with tempfile.TemporaryDirectory(prefix="drumbeat-bench-") as folder:
        file = Path(folder) / RESULT
        client.fetch(name, f"outputs/result/{RESULT}", file, lambda _: None)
        return json.loads(file.read_text(encoding="utf-8"))


def _line(measurement: Measurement) -> str:
    speed = sorted(block.images_per_s for block in measurement.blocks)
    case, busy = measurement.case, f"; others used {measurement.busy:.0%} before" if measurement.busy > 0.1 else ""
    return f"{case}, repeat {case.repeat}: {speed[len(speed) // 2]:.1f} images/s{busy}"


def _report(results: Results, to: Path, picture: str, *, as_json: bool) -> None:
    """Writes the page and the chart of what has been measured so far, and prints the table."""
    from drumbeat.bench.machine_load import cores
    from drumbeat.bench.markdown_report import describe, render_page
    from drumbeat.bench.scaling_chart import INSTALL, draw
    from drumbeat.bench.summary import summarize, warnings

    rows = summarize(results)
    if not rows:
        return
    is_here = results.benchmark.compute == "local"
    doubts = warnings(results, rows, cores(), is_here=is_here)
    chart = to / f"{CHART}.{picture}"
    has_chart = draw(rows, describe(results), chart)
    page = render_page(results, rows, doubts, picture=chart.name if has_chart else "")
    (to / PAGE).write_text(page, encoding="utf-8")
    if as_json:
        print_json({**results.as_json(), "rows": rows, "warnings": doubts})
        return
    _show(results, rows, doubts)
    print(f"\nwrote {to / RESULTS}, {to / PAGE}" + (f", {chart}" if has_chart else f"; for a chart: {INSTALL}"))


def _show(results: Results, rows: Sequence[ScalingRow], warnings: Sequence[str]) -> None:
    from drumbeat.bench.markdown_report import COLUMNS, cells, describe

    table = make_table(*(f">{name}" if name != "network" else name for name in COLUMNS))
    show(cell(describe(results)), fill_table(table, [cells(row) for row in rows]))
    for warning in warnings:
        print(f"warning: {warning}")

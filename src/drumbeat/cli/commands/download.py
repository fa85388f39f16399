"""`download`: copies files of a job into a local folder."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Annotated

import typer

from drumbeat.cli.terminal.connect import connect
from drumbeat.cli.terminal.formatting import count, format_size
from drumbeat.cli.terminal.help import Job
from drumbeat.cli.terminal.job_names import find_job
from drumbeat.model.api.jobs import FileView
from drumbeat.model.errors import NotFoundError, SpecError

if TYPE_CHECKING:
    from drumbeat.client import Client


def download(
    context: typer.Context,
    job: Job,
    to: Annotated[
        Path | None, typer.Option("--to", metavar="DIR", help="Destination folder; ./JOB by default.")
    ] = None,
    outputs: Annotated[str | None, typer.Option("--outputs", metavar="NAME", help="Download only this output.")] = None,
    logs: Annotated[bool, typer.Option("--logs", help="Download only the logs.")] = False,
) -> None:
    """Download a job's files: outputs, logs, story and plan; for a sweep, those of its best trial."""
    if outputs and logs:
        raise typer.BadParameter("--outputs and --logs each mean: only these", param_hint="--logs")
    client = connect()
    name = client.source_of_files(find_job(client, job).name)
    all_files = client.files(name)
    if context.args:
        raise _misplaced(context.args[0], job, output_names(all_files))
    files = choose_files(all_files, output=outputs, is_logs=logs)
    folder = to or Path(name)
    fetch(client, name, files, folder)
    print(f"{count(len(files), 'file')}, {format_size(sum(file.size for file in files))}, in {folder.resolve()}")


def output_names(files: list[FileView]) -> list[str]:
    """Returns the names of the outputs that have files."""
    return sorted({PurePosixPath(file.path).parts[1] for file in files if file.path.startswith("outputs/")})


def _misplaced(word: str, job: str, outputs: list[str]) -> SpecError:
    """Returns the error for a second argument, which names the option that was probably meant."""
    option = f"--outputs {word}" if word in outputs else f"--to {shlex.quote(word)}"
    what = f"one job is brought at a time, and {word!r} stands behind its name"
    meant = "Only this output" if word in outputs else "If it is the folder to bring the files to"
    return SpecError(what, where=job, fix=f"{meant}: drumbeat download {job} {option}")


def choose_files(files: list[FileView], *, output: str | None, is_logs: bool) -> list[FileView]:
    """Returns the requested files. Raises NotFoundError if there are none, with the names of the outputs."""
    if output:
        place = f"outputs/{output}"  # An output of type uri_file is a file of that name.
        chosen = [file for file in files if file.path == place or file.path.startswith(f"{place}/")]
    else:
        chosen = [file for file in files if not is_logs or file.path.startswith("logs/")]
    if chosen:
        return chosen
    names = output_names(files)
    if output:
        advice = f"Its outputs: {', '.join(names)}." if names else "It has no outputs; they are kept when a job ends."
        raise NotFoundError(f"the job has no files in output {output!r}", fix=advice)
    raise NotFoundError("the job has no files yet", fix="Outputs are kept when a job ends.")


def fetch(client: Client, name: str, files: list[FileView], folder: Path) -> None:
    """Downloads the files, with progress on a terminal."""
    from drumbeat.client import partial_file_names
    from drumbeat.client.job_downloads import check_folder, place_in

    check_folder(folder)
    wanted = [(file, place_in(folder, file.path)) for file in files]
    with progress(sum(file.size for file in files)) as advance:
        for file, place in wanted:
            place.parent.mkdir(parents=True, exist_ok=True)
            client.fetch(name, file.path, place, on_bytes=advance)
    partial_file_names.clear(place for _, place in wanted)


@contextmanager
def progress(total: int | None = None) -> Generator[Callable[[int], None]]:
    """Takes numbers of bytes; shows a bar where a user looks. total: None = it isn't known."""
    if not sys.stdout.isatty():
        yield lambda _: None
        return
    from rich.progress import BarColumn, DownloadColumn, Progress, TransferSpeedColumn

    with Progress(BarColumn(), DownloadColumn(binary_units=True), TransferSpeedColumn(), transient=True) as bar:
        task = bar.add_task("", total=total)
        yield lambda size: bar.advance(task, size)

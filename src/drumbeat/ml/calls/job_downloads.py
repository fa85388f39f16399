"""Brings the files of a job into the folders that Azure's client makes of them."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

from drumbeat.client import Client, partial_file_names
from drumbeat.client.job_downloads import check_folder, place_in
from drumbeat.ml.errors import JobException
from drumbeat.model.api.jobs import JobWithEvents
from drumbeat.model.api.pipelines import REUSED_RUN
from drumbeat.model.azure_statuses import azure_status
from drumbeat.model.folder_layout import DEFAULT_OUTPUT
from drumbeat.model.logs import LogName
from drumbeat.model.states import JobKind

ARTIFACTS, PARENTS_ARTIFACTS, NAMED = "artifacts", "hd-artifacts", "named-outputs"
UNNAMED = ("artifacts", "mlflow-artifacts", DEFAULT_OUTPUT)


def download(client: Client, name: str, to: Path, output: str | None, *, is_all: bool) -> None:
    """Copies logs and unnamed outputs, or named outputs, of a job. Raises JobException for one that hasn't ended."""
    job = client.get(name)
    if not job.has_ended:
        states = "['Completed', 'Failed', 'Canceled']"
        text = (
            f"This job is in state {azure_status(job.state, job.reason)}. Download is allowed only in states {states}"
        )
        raise JobException(text, text)
    output = None if output == DEFAULT_OUTPUT else output
    if earlier := job.properties.get(REUSED_RUN):
        name, job = earlier, client.get(earlier)
    check_folder(to)
    if job.type == JobKind.SWEEP:
        if job.best_trial:
            download(client, job.best_trial.job, to, output, is_all=is_all)
        if output is None:
            _artifacts(client, job, to / PARENTS_ARTIFACTS)
        return
    if output is None:
        _artifacts(client, job, to / ARTIFACTS)
    if output or is_all:
        _outputs(client, job, to / NAMED, output)


def _artifacts(client: Client, job: JobWithEvents, to: Path) -> None:
    """Copies the logs of the last round as `user_logs/std_log….txt`, and what the script wrote to `./outputs`."""
    files = [file.path for file in client.files(job.name)]
    logs = {path: LogName.from_path(path) for path in files if path.startswith("logs/")}
    last = max(((log.attempt, log.round) for log in logs.values()), default=(0, 0))
    chosen: dict[str, str] = {}
    for path, log in logs.items():
        if (log.attempt, log.round) == last and log.rank >= 0:
            chosen[path] = f"user_logs/{log_name(log.rank, job.world_size)}"
    for path in files:
        kind, _, rest = path.removeprefix("outputs/").partition("/")
        if path.startswith("outputs/") and kind in UNNAMED and rest:
            chosen[path] = f"outputs/{rest}"
    _fetch(client, job.name, chosen, to)


def log_name(rank: int, ranks: int) -> str:
    """Returns what Azure calls the log of a rank: with as many digits as the last rank has."""
    if ranks <= 1:
        return "std_log.txt"
    return f"std_log_process_{rank:0{len(str(ranks - 1))}d}.txt"


def _outputs(client: Client, job: JobWithEvents, to: Path, only: str | None) -> None:
    if job.type == JobKind.PIPELINE:
        for one in client.pipeline(job.name).outputs:
            if one.job and only in (None, one.name):
                _output(client, one.job, one.output, to / one.name)
        return
    names = {PurePosixPath(file.path).parts[1] for file in client.files(job.name) if file.path.startswith("outputs/")}
    names |= {one.name for one in job.outputs}
    for name in sorted(names - {*UNNAMED}):
        if only in (None, name):
            _output(client, job.name, name, to / name)


def _output(client: Client, job: str, output: str, to: Path) -> None:
    """Copies one output, from the job's folder or from the store in which it lies."""
    prefix = f"outputs/{output}"
    chosen = {
        file.path: file.path.removeprefix(prefix).lstrip("/") or output
        for file in client.files(job)
        if file.path == prefix or file.path.startswith(f"{prefix}/")
    }
    stored = next((one.uri for one in client.get(job).outputs if one.name == output and one.uri), "")
    if not chosen and stored:
        client.download_data(stored, to)
    _fetch(client, job, chosen, to)


def _fetch(client: Client, job: str, files: dict[str, str], to: Path) -> None:
    places = {path: place_in(to, target) for path, target in files.items()}
    for path, place in places.items():
        place.parent.mkdir(parents=True, exist_ok=True)
        client.fetch(job, path, place)
    partial_file_names.clear(places.values())

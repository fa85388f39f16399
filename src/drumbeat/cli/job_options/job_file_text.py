"""Writes a job file with a comment at each key, and never replaces another file by accident."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from drumbeat.model.errors import ConflictError, SpecError, StorageError

WIDTH = 98
COMMENTS = {
    "command": "Runs in the code's folder, once for each rank.",
    "code": "This folder goes along, less what .amlignore (else .gitignore) in it names.",
    "environment": "What it runs in. Without this key: the server's own Python.",
    "inputs": "What the command reads: ${{inputs.NAME}}.",
    "outputs": "What the command writes: ${{outputs.NAME}}.",
    "distribution": "Each rank finds RANK, LOCAL_RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT in its environment.",
    "distribution.process_count_per_instance": "Ranks on each node.",
    "resources.instance_count": "Nodes. On one machine they share its cores.",
    "resources.instance_type": "gpu:N is N GPUs on each node; cpu keeps the ranks off the GPUs.",
    "compute": "Where it runs: drumbeat compute list",
    "experiment_name": "Jobs of one experiment are listed together.",
}


def job_file_text(document: Mapping[str, Any], head: str, comments: Mapping[str, str] = COMMENTS) -> str:
    """Returns the commented job file, which loads as the same job."""
    from drumbeat.jobfile.reading.writer import dumps_document

    folded = {key: "\n".join(textwrap.wrap(text, WIDTH)) for key, text in comments.items()}
    lines = [f"# {line}" for line in textwrap.wrap(head, WIDTH)]
    return "\n".join([*lines, "", dumps_document(document, folded)])


def write_job_file(file: Path, text: str, *, force: bool) -> None:
    """Writes the file, whole or not at all. Raises ConflictError if it exists, StorageError, SpecError."""
    if file.is_dir():
        raise SpecError("this is a folder", where=str(file), fix=f"Name a file in it: {file / 'job.yml'}")
    try:
        if force:
            half = file.with_name(f".{file.name}.{os.getpid()}")
            half.write_text(text, encoding="utf-8")
            half.replace(file)
            return
        with file.open("x", encoding="utf-8") as new:
            new.write(text)
    except FileExistsError:
        fix = "Name another file, or replace this one with --force."
        raise ConflictError("the file exists already and is left as it is", where=str(file), fix=fix) from None
    except OSError as error:
        what = f"the job file can't be written: {error.strerror}"
        raise StorageError(what, where=str(file), fix="Name a file in a folder that you can write to.") from None

"""`init`: writes a commented job file for a script."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer


def init(
    script: Annotated[
        Path | None,
        typer.Argument(
            metavar="[SCRIPT]", help="The script; by default train.py, main.py, or the only script in this folder."
        ),
    ] = None,
    write: Annotated[
        Path | None, typer.Option("--write", metavar="FILE", help="The job file; job.yml beside the script by default.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
) -> None:
    """Write a commented job file for a script, without running anything.

    The script's imports (torch.distributed, Lightning, DeepSpeed, TensorFlow, Horovod, MPI, Ray) determine the
    distribution. A requirements.txt or conda.yml beside the script becomes the environment.
    """
    from drumbeat.cli.job_options.job_file_text import job_file_text, write_job_file
    from drumbeat.cli.job_options.script_analysis import find_script
    from drumbeat.cli.job_options.script_job import draft_for

    chosen = find_script(script, Path.cwd())
    file = write or chosen.parent / "job.yml"
    draft = draft_for(chosen, file.absolute().parent)
    head = f"A job file for {chosen.name}. {draft.reason} Run it: drumbeat run {file}"
    write_job_file(file, job_file_text(draft.document, head, draft.comments), force=force)
    quoted = shlex.quote(str(file))
    print(f"wrote {file}: {draft.reason}")
    print(f"  look  drumbeat plan {quoted}")
    print(f"  run   drumbeat run {quoted}")

"""`export`: writes a job file for another service."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from drumbeat.cli.terminal.formatting import count


class ExportTarget(StrEnum):
    """The services that a job file can be written for."""

    AZUREML = "azureml"


def export(
    file: Annotated[Path, typer.Argument(metavar="[FILE]", help="The job file.")] = Path("job.yml"),
    to: Annotated[
        ExportTarget, typer.Option("--to", help="The service whose loader takes the result.")
    ] = ExportTarget.AZUREML,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="FILE", help="The file to write; standard output by default."),
    ] = None,
    image: Annotated[
        str,
        typer.Option("--image", metavar="IMAGE", help="Image for jobs that name no environment, and below packages."),
    ] = "",
    compute: Annotated[
        str, typer.Option("--compute", metavar="NAME", help="Compute of every job, in place of those in the file.")
    ] = "",
    sets: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Set a key of the job file, like inputs.epochs=3. Repeatable."),
    ] = None,
) -> None:
    """Write a job file that Azure ML's own loader takes; what is lost is printed, and stands in it as comments."""
    from drumbeat.client.azure_export import ExportOptions, export_to_azure

    del to  # There is one so far.
    folder = output.absolute().parent if output else file.absolute().parent
    made = export_to_azure(file, folder, ExportOptions(image, compute), sets or ())
    for loss in made.losses:
        print(loss, file=sys.stderr)
    if output is None:
        sys.stdout.write(made.text)
        return
    output.write_text(made.text, encoding="utf-8")
    print(f"{output}: {count(len(made.losses), 'remark')}")

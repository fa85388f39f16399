"""Makes the job that options and a command describe: the same as the file that `--write` writes for them."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any, cast

from drumbeat.cli.job_options.command_line import PARAMETER, SEPARATOR, shell_line
from drumbeat.cli.job_options.environment_option import parse_environment
from drumbeat.cli.job_options.input_options import literals_in, parse_inputs, parse_outputs
from drumbeat.cli.job_options.options import KEY_OF, JobOptions
from drumbeat.jobfile.job.job import CommandJob
from drumbeat.jobfile.reading.error_messages import short
from drumbeat.model.errors import Problem, SpecError

UNDECLARED = re.compile(r"Add it under `(input|output)s:`\.")
SOURCE = "the command line"
Document = dict[str, Any]


def draft_job(words: Sequence[str], options: JobOptions, sets: Sequence[str], name: str | None = None) -> CommandJob:
    """Returns the checked job; its code is the current folder, and its paths count from it. Raises SpecError."""
    from drumbeat.jobfile.job_file import JOB
    from drumbeat.jobfile.reading.loader import model_from

    document = job_document(words, options, Path.cwd(), sets) | ({"name": name} if name else {})
    try:
        job = model_from(document, JOB, SOURCE, overrides=sets)
    except SpecError as error:
        problems = error.fields or (Problem(error.what, error.where, error.fix),)
        raise SpecError.from_problems([_as_typed(one, words) for one in problems]) from None
    require_project_folder(job.code if isinstance(job, CommandJob) else None)
    return cast("CommandJob", job)


def job_document(words: Sequence[str], options: JobOptions, folder: Path, sets: Sequence[str]) -> Document:
    """Returns the job file's keys, before `sets` change them. folder: paths count from it. Raises SpecError."""
    inputs = parse_inputs(options.inputs, folder)
    document: Document = {
        "experiment_name": options.experiment,
        "command": shell_line(words, literals_in(_changed(inputs, sets))),
        "code": ".",
        "environment": parse_environment(options.env, folder) if options.env is not None else None,
        "inputs": inputs,
        "outputs": parse_outputs(options.outputs),
        "distribution": _distribution(options),
        "resources": _resources(options),
        "compute": options.compute,
    }
    return {key: value for key, value in document.items() if value is not None and value != {}}


def _changed(inputs: Document, sets: Sequence[str]) -> Document:
    """Returns the inputs as `--set` leaves them; what can't be set is reported when the job is read."""
    from drumbeat.jobfile.reading.overrides import apply

    changed = deepcopy(inputs)
    apply({"inputs": changed}, [one for one in sets if one.lstrip().startswith("inputs.")])
    return changed


def _distribution(options: JobOptions) -> Document | None:
    """Returns PyTorch's distribution wherever there is more than one process, or could be."""
    if options.procs is not None:
        return {"type": "pytorch", "process_count_per_instance": options.procs}
    return {"type": "pytorch"} if (options.nodes or 1) > 1 else None


def _resources(options: JobOptions) -> Document:
    resources: Document = {} if options.nodes is None else {"instance_count": options.nodes}
    if options.gpus is None:
        return resources
    if options.gpus < 0:
        what = f"a node can't have {options.gpus} GPUs"
        raise SpecError(what, where="--gpus", fix="Give 1 or more; 0 keeps the ranks off the GPUs.")
    return {**resources, "instance_type": f"gpu:{options.gpus}" if options.gpus else "cpu"}


FIX_OF = {"--nodes": "Give a number from 1 to 1,000,000.", "--procs": "Give a number from 1 to 1,000,000."}


def _as_typed(problem: Problem, words: Sequence[str]) -> Problem:
    """Returns the problem with the option that the key came from as its place."""
    key = problem.where.removeprefix(SOURCE).removeprefix(".")
    for option, own in KEY_OF.items():
        if key == own or key.startswith(f"{own}."):
            return Problem(problem.what, option, problem.fix or FIX_OF.get(option, ""))
    table, _, name = key.partition(".")
    if table == "command":
        fix = UNDECLARED.sub(r"Declare it: --\1 NAME=VALUE", problem.fix)
        return Problem(problem.what, short(shlex.join([SEPARATOR, *words])), fix)
    if table in ("inputs", "outputs") and name:
        where = f"--{table.removesuffix('s')} {name.split('.')[0]}"
        return Problem(problem.what, where, problem.fix or "A name is a word, as in --input data=./folder.")
    return problem


def require_project_folder(code: str | None) -> None:
    """Raises SpecError where the job's code would be the whole home folder, or the whole machine."""
    from drumbeat.jobfile.data.paths import local_path

    local = local_path(code) if code is not None else None
    if local is None:
        return
    place = Path(local).expanduser().resolve()
    if place not in (Path.home().resolve(), Path("/")):
        return
    raise SpecError(
        "the whole home folder, or the whole disk, would be sent as the job's code",
        where=str(place),
        fix="Run it in the script's folder, name a folder (--set code=FOLDER), or send no code (--set code=null).",
    )


def rebased(document: Document, to: Path) -> Document:
    """Returns the same job with its local paths counted from another folder."""
    moved = dict(document)
    if isinstance(moved.get("code"), str):
        moved["code"] = _from(moved["code"], to)
    environment = moved.get("environment")
    if isinstance(environment, dict):
        moved["environment"] = _rebased_environment(cast("Document", environment), to)
    inputs = cast("Document", moved.get("inputs") or {})
    if inputs:
        moved["inputs"] = {name: _rebased_input(value, to) for name, value in inputs.items()}
    return moved


def _rebased_environment(environment: Document, to: Path) -> Document:
    moved = dict(environment)
    if isinstance(moved.get("conda_file"), str):
        moved["conda_file"] = _from(moved["conda_file"], to)
    if isinstance(moved.get("build"), dict):
        moved["build"] = {**moved["build"], "path": _from(moved["build"]["path"], to)}
    return moved


def _rebased_input(value: object, to: Path) -> object:
    if not isinstance(value, dict):
        return value
    described = cast("Document", value)
    path = described.get("path")
    return {**described, "path": _from(path, to)} if isinstance(path, str) else described


def _from(path: str, to: Path) -> str:
    """Returns a relative path as seen from the folder `to`; any other path unchanged."""
    from drumbeat.jobfile.data.paths import local_path

    local = local_path(path)
    if local is None or local.startswith(("/", "~")) or to.resolve() == Path.cwd().resolve():
        return path
    return os.path.relpath(Path(local).absolute(), to.resolve())


def unused(job: CommandJob) -> Iterator[str]:
    """Yields a note for each input and output that the command doesn't name."""
    for table, prefix in (("inputs", "AZURE_ML_INPUT"), ("outputs", "AZURE_ML_OUTPUT")):
        for name, value in getattr(job, table).items():
            is_literal = isinstance(value, str | int | float)
            variable = f"{PARAMETER}{name}" if is_literal else f"{prefix}_{name}"
            if f"{table}.{name}" not in job.command and f"${variable}" not in job.command:
                yield (
                    f"note: the command doesn't use {table[:-1]} `{name}`; it has it as ${variable}, or write "
                    f"'${{{{{table}.{name}}}}}' behind `--`"
                )

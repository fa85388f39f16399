"""Which job a user means: the one in a file, or the command behind `--`."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from drumbeat.cli.job_options.command_line import SCRIPT_SUFFIXES, SEPARATOR, require_separator
from drumbeat.cli.job_options.options import KEY_OF, JobOptions
from drumbeat.model.errors import SpecError

if TYPE_CHECKING:
    from drumbeat.jobfile.job.job import CommandJob

DEFAULT_FILE = Path("job.yml")


@dataclass(frozen=True)
class RequestedJob:
    """The job that the command line asks to submit or to plan, with its overrides."""

    job: Path | dict[str, object]
    sets: Sequence[str] = ()
    draft: CommandJob | None = None
    """The job itself where there is no file."""
    notes: Sequence[str] = field(default=())


def choose(
    file: Path | None, words: Sequence[str] | None, options: JobOptions, sets: Sequence[str], name: str | None = None
) -> RequestedJob:
    """Returns the job. words: those after `--`, None = there is no `--`. Raises SpecError."""
    if words is None:
        chosen = _file(file, options)
        _require_no_options(options, chosen)
        return RequestedJob(chosen, sets)
    if file is not None:
        what = f"both a job file and a command: {file}, and {shlex.join([SEPARATOR, *words])}"
        raise SpecError(what, where=str(file), fix="Leave one of them out; --set changes a value of a job file.")
    from drumbeat.cli.job_options.command_job import draft_job, unused
    from drumbeat.jobfile.reading.writer import to_dict

    draft = draft_job(words, options, sets, name)
    return RequestedJob(to_dict(draft), (), draft, [*unused(draft)])


def _file(file: Path | None, options: JobOptions) -> Path:
    """Returns the path of the job file."""
    if file is None:
        return _default(options)
    if not file.is_file():
        require_separator([str(file)])
    elif file.name.endswith(SCRIPT_SUFFIXES):
        program = "python" if file.name.endswith(".py") else "bash"
        line = shlex.join([program, str(file)])
        fix = f"Run it without a job file: drumbeat run -- {line}. Or write one for it: drumbeat init {file}"
        raise SpecError("this is a script, not a job file", where=str(file), fix=fix)
    if (file / DEFAULT_FILE).is_file():
        fix = f"Name the file in it: drumbeat run {file / DEFAULT_FILE}"
        raise SpecError("this is a folder", where=str(file), fix=fix)
    return file


def _default(options: JobOptions) -> Path:
    if DEFAULT_FILE.is_file():
        return DEFAULT_FILE
    typed = options.given()
    what = (
        f"no command follows {', '.join(typed)}" if typed else "no job file was named, and this folder has no job.yml"
    )
    fix = "Name one: drumbeat run path/to/job.yml. Or run a command without one: drumbeat run -- python train.py"
    if typed:
        fix = f"Write the command behind `--`: drumbeat run {typed[0]} … -- python train.py"
    raise SpecError(what, where=str(Path.cwd()), fix=fix)


def _require_no_options(options: JobOptions, file: Path) -> None:
    """Raises SpecError for an option whose key the job file has."""
    given = options.given()
    if not given:
        return
    option = given[0]
    key = KEY_OF.get(option)
    fix = f"With a file: --set {key}=…" if key else f"Declare it in {file}, then change it with --set."
    raise SpecError(f"{option} is for a job without a file, and the job is in {file}", where=option, fix=fix)

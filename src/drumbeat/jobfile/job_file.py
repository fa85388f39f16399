"""The job file: which models it may describe, and the functions that read one from a file, a text or a mapping."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from drumbeat.jobfile.job.job import CommandJob
from drumbeat.jobfile.reading.error_messages import fold, nearest, shown, words
from drumbeat.jobfile.reading.loader import DocumentKind, Places, decode, load_text, model_from, read_text
from drumbeat.jobfile.reading.model import Model
from drumbeat.jobfile.reading.other_documents import other_document
from drumbeat.jobfile.reading.yaml_tree import MAX_BYTES
from drumbeat.model.errors import Problem, SpecError

if TYPE_CHECKING:
    from drumbeat.jobfile.pipelines.pipeline_job import PipelineJob
    from drumbeat.jobfile.sweeping.sweep import SweepJob

    Job = CommandJob | SweepJob | PipelineJob
else:
    Job = Model

KINDS = ("command", "sweep", "pipeline")
STANDARD_INPUT = "-"
"""As a path: the job is read from standard input, and paths in it are relative to the current folder."""


@dataclass(frozen=True)
class Loaded:
    """A job and where it was written."""

    job: Job
    base: Path
    """The folder that relative paths in the job start from."""
    source: str
    """The file's name in messages."""
    text: str = ""
    """The text of the file."""


def load(path: str | Path, *, overrides: Sequence[str] = ()) -> Job:
    """Reads the job in a file; raises `SpecError` with every problem."""
    return load_file(path, overrides=overrides).job


def load_file(path: str | Path, *, overrides: Sequence[str] = ()) -> Loaded:
    """Reads the job in a file, and keeps the folder that its paths are relative to."""
    if str(path) == STANDARD_INPUT:
        name = "standard input"
        text = decode(sys.stdin.buffer.read(MAX_BYTES + 1), name)
        return Loaded(loads(text, name, overrides), Path.cwd(), name, text)
    file = Path(path)
    text = read_text(file)
    job = loads(text, name=str(path), overrides=overrides)
    return Loaded(job, file.absolute().parent, str(path), text)


def loads(text: str, name: str = "<string>", overrides: Sequence[str] = ()) -> Job:
    """Reads the job in a YAML text; messages call the text `name`."""
    return cast("Job", load_text(text, JOB, name, overrides))


def from_dict(document: Mapping[str, Any], name: str = "job") -> Job:
    """Checks a job given as a mapping, as YAML would give it; places in messages are `name.key.path`."""
    return cast("Job", model_from(document, JOB, name))


def _choose_model(document: Mapping[str, Any], places: Places) -> type[Model]:
    """The model that the file's `type` names; a file without one is a command job."""
    if other := other_document(document):
        described, key = other
        advice = described.advice.format(file=places.name, name=Path(places.name).name)
        raise SpecError.from_problems(
            [Problem(f"this file describes {described.noun}, not a job", places((key,), "key", ""), advice)]
        )
    kind = document.get("type")
    match fold(kind) if isinstance(kind, str) else kind:
        case None | "command":
            return CommandJob
        case "sweep":
            from drumbeat.jobfile.sweeping.sweep import SweepJob

            return SweepJob
        case "pipeline":
            from drumbeat.jobfile.pipelines.pipeline_job import PipelineJob

            return PipelineJob
        case _:
            what = f"`type`: a job is {words(KINDS, 'or')}, not {shown(kind)}"
            raise SpecError.from_problems([Problem(what, places(("type",), "value", ""), nearest(kind, KINDS))])


JOB = DocumentKind("a job", _choose_model, "`command:`")

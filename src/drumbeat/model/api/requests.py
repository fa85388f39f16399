"""What a client sends to submit or to plan a job."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar

from drumbeat.model.api.constraints import NO_OTHER_KEYS, Constraint, limited
from drumbeat.model.wire import IS_OPTIONAL

MAX_NOTES = 200
MAX_FILES = 50
"""Of an environment."""
MAX_PARTS = 2000
"""Steps of a pipeline, nested pipelines among them."""

Digest = Annotated[str, Constraint(pattern=r"^[0-9a-f]{64}$")]
InputPlace = Annotated[
    str,
    Constraint(
        pattern=r"^(file:///[^\x00]*|snapshot:[0-9a-f]{64}|azureml://datastores/[^/\x00]+/paths/[^\x00]*)$",
        max_length=5000,
    ),
]
Note = Annotated[str, Constraint(min_length=1, max_length=1000)]
Line = Annotated[int, Constraint(ge=0)]


@dataclass(frozen=True)
class EnvironmentFiles:
    """The texts of the files that an environment names, and of those that these include.

    main: the file to begin with, as messages call it; "" = there is none. files: name to text; an included file is
    named by its path relative to the folder of the file that includes it. lines: where a conda file is written inside
    the job: the line of each of its requirements there, in order; 0 = unknown. context: SHA-256 of the snapshot with
    the folder of `build`, "" = it wasn't sent; dockerfile: which of the files is its Dockerfile, "" = it has none.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = NO_OTHER_KEYS

    main: str = field(default="", metadata=limited(max_length=4096))
    files: dict[str, str] = field(
        default_factory=dict[str, str], metadata=limited(max_length=MAX_FILES, default=dict[str, str]())
    )
    lines: tuple[Line, ...] = field(default=(), metadata=limited(max_length=20_000))
    context: str = field(default="", metadata=limited(pattern=r"^([0-9a-f]{64})?$"))
    dockerfile: str = field(default="", metadata=limited(max_length=4096))


_NO_FILES: dict[str, Any] = {"main": "", "files": {}, "lines": [], "context": "", "dockerfile": ""}


@dataclass(frozen=True)
class StepParts:
    """What the client sent for one step of a pipeline: code, local inputs, and the files of its environment."""

    __pydantic_config__: ClassVar[dict[str, Any]] = NO_OTHER_KEYS

    code: Digest | None = field(default=None, metadata=limited("SHA-256 of the snapshot with the step's code."))
    inputs: dict[str, InputPlace] = field(
        default_factory=dict[str, str],
        metadata=limited("Of each input with a local path: where it is now.", default=dict[str, str]()),
    )
    environment: EnvironmentFiles = field(
        default_factory=EnvironmentFiles,
        metadata=limited("The files that the step's environment names.", default=_NO_FILES),
    )


@dataclass(frozen=True)
class JobRequest:
    """A job to submit or to plan."""

    __pydantic_config__: ClassVar[dict[str, Any]] = NO_OTHER_KEYS

    document: dict[str, Any] = field(metadata=limited("The job, in the dialect of the job file."))
    key: str = field(default="", metadata=limited("Two requests with the same key submit one job.", max_length=200))
    source: str = field(default="job", metadata=limited("The file it was written in, for messages.", max_length=5000))
    experiment: str = field(default="default", metadata=limited("Used where the document names none.", max_length=255))
    code: Digest | None = field(default=None, metadata=limited("SHA-256 of the snapshot with the code."))
    inputs: dict[str, InputPlace] = field(
        default_factory=dict[str, str],
        metadata=limited("Of each input with a local path: where it is now.", default=dict[str, str]()),
    )
    environment: EnvironmentFiles = field(
        default_factory=EnvironmentFiles,
        metadata=limited("The files that the environment names.", default=_NO_FILES),
    )
    notes: tuple[Note, ...] = field(
        default=(),
        metadata=limited("What only the client sees; printed with the plan's own notes.", max_length=MAX_NOTES),
    )
    parts: dict[str, StepParts] = field(
        default_factory=dict[str, StepParts],
        metadata=limited(
            "Of a pipeline: what belongs to each step, by its path, such as `train` or `outer/inner`.",
            max_length=MAX_PARTS,
            default=dict[str, Any](),
        ),
    )
    like: str = field(
        default="",
        metadata=limited(
            "The job that is run again. Code, files of local inputs and of the environment are that job's, and the "
            "two name each other.",
            max_length=255,
        )
        | {IS_OPTIONAL: True},
    )
    resume: bool = field(
        default=False,
        metadata=limited("Whether it continues `like` from its last checkpoint, of which it gets a copy.")
        | {IS_OPTIONAL: True},
    )


MAX_BATCH = 500
"""Jobs that are submitted together."""


@dataclass(frozen=True)
class JobBatch:
    """Jobs to submit together: all of them, or none."""

    __pydantic_config__: ClassVar[dict[str, Any]] = NO_OTHER_KEYS

    jobs: tuple[JobRequest, ...] = field(metadata=limited("In the order of the response.", max_length=MAX_BATCH))


TagValue = Annotated[str, Constraint(max_length=8000)]
DisplayName = Annotated[str, Constraint(max_length=255)]
NoteText = Annotated[str, Constraint(max_length=8000)]
"""Markdown, as long as MLflow keeps it."""


@dataclass(frozen=True)
class Labels:
    """The labels of a job as a user saw them: what is given here and was changed meanwhile is a conflict."""

    __pydantic_config__: ClassVar[dict[str, Any]] = NO_OTHER_KEYS

    display_name: str | None = None
    description: str | None = None
    tags: dict[str, str | None] = field(
        default_factory=dict[str, str | None],
        metadata=limited("null = the job had no such tag.", default=dict[str, str]()),
    )


@dataclass(frozen=True)
class JobChange:
    """Changes of a job's labels. What isn't given stays."""

    __pydantic_config__: ClassVar[dict[str, Any]] = NO_OTHER_KEYS

    display_name: DisplayName | None = None
    description: NoteText | None = field(default=None, metadata=limited("The note: markdown."))
    tags: dict[str, TagValue | None] = field(
        default_factory=dict[str, str | None],
        metadata=limited("By name; null removes a tag. Other tags stay.", default=dict[str, str](), max_length=200),
    )
    seen: Labels | None = field(
        default=None, metadata=limited("What was seen of these before. When absent, nothing conflicts.")
    )


@dataclass(frozen=True)
class NoteChange:
    """A note of an experiment. seen: what it said before; when absent, nothing conflicts."""

    __pydantic_config__: ClassVar[dict[str, Any]] = NO_OTHER_KEYS

    note: NoteText = field(metadata=limited("Markdown; empty removes it."))
    seen: str | None = None

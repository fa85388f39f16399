"""From a file, a text or a dict to a checked job. Every problem comes at once, with line and column."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from typing import TYPE_CHECKING, Any, TypeVar, cast

from pydantic import ValidationError

from drumbeat.dialect.job.job import CommandJob, reference_contradictions
from drumbeat.dialect.reading.overrides import apply
from drumbeat.dialect.reading.problems import MOST_PROBLEMS, Seen, fold, nearest, problems_of, shown, words
from drumbeat.dialect.reading.shape import Loc, Model, dotted
from drumbeat.dialect.reading.yaml_tree import MOST_BYTES, Node, parse, plain
from drumbeat.protocol.errors import Problem, SpecError

if TYPE_CHECKING:
    from drumbeat.dialect.pipelines.pipeline_job import PipelineJob
    from drumbeat.dialect.sweeping.sweep import SweepJob

    Job = CommandJob | SweepJob | PipelineJob
else:
    Job = Model

M = TypeVar("M", bound=Model)
KINDS = ("command", "sweep", "pipeline")
STANDARD_INPUT = "-"
"""As a path: the text is read from there, and paths in it count from the current folder."""


@dataclass(frozen=True)
class Loaded:
    """A job and where it was written: its local paths count from `base`. text: the file's."""

    job: Job
    base: Path
    source: str
    text: str = ""


def load(path: str | Path, *, overrides: Sequence[str] = ()) -> Job:
    """The job in a file; raises `SpecError` with every problem."""
    return load_file(path, overrides=overrides).job


def load_file(path: str | Path, *, overrides: Sequence[str] = ()) -> Loaded:
    """The job in a file, with the folder that its paths count from."""
    file = Path(path)
    if str(path) == STANDARD_INPUT:
        name = "standard input"
        text = _decoded(sys.stdin.buffer.read(MOST_BYTES + 1), name)
        return Loaded(loads(text, name, overrides), Path.cwd(), name, text)
    text = read_text(file)
    job = loads(text, name=str(path), overrides=overrides)
    return Loaded(job, file.absolute().parent, str(path), text)


def loads(text: str, name: str = "<string>", overrides: Sequence[str] = ()) -> Job:
    """The job in a YAML text; `name` stands in the messages."""
    return cast("Job", _read(text, name, overrides, JOB))


def load_as(cls: type[M], path: str | Path) -> M:
    """Another piece of the dialect that has a file of its own: a component, an environment."""
    return cast("M", _read(read_text(Path(path)), str(path), (), Sort("a job", lambda _document, _places: cls)))


def load_chosen(path: str | Path, sort: Sort, overrides: Sequence[str] = ()) -> Model:
    """What a file of another sort describes."""
    return _read(read_text(Path(path)), str(path), overrides, sort)


def _read(text: str, name: str, overrides: Sequence[str], sort: Sort) -> Model:
    text = text.removeprefix("\ufeff")
    root = parse(text, name, sort.least)
    if not isinstance(root.value, dict):
        what = shown(plain(root, name)) if isinstance(root.value, str) else "a list"
        where = f"{name}:{root.line + 1}:{root.column + 1}"
        raise SpecError(f"{sort.noun} is a mapping of keys, not {what}", where=where)
    document: dict[str, Any] = plain(root, name)
    changed, problems = apply(document, overrides)
    return _checked(document, Places(text, name, root, changed), problems, sort)


def from_dict(document: Mapping[str, Any], name: str = "job") -> Job:
    """The job in a mapping as YAML would give it; places in messages are `name.key.path`."""
    return cast("Job", chosen_from(document, JOB, name))


def chosen_from(document: Mapping[str, Any], sort: Sort, name: str, *, overrides: Sequence[str] = ()) -> Model:
    """The same for what is of another sort. overrides: `key.path=value`, applied to a copy first."""
    if not isinstance(document, Mapping):
        raise SpecError(f"{sort.noun} is a mapping of keys, not {shown(document)}", where=name)
    if not overrides:
        return _checked(document, Places("", name), [], sort)
    copy = deepcopy(dict(document))
    changed, problems = apply(copy, overrides)
    return _checked(copy, Places("", name, None, changed), problems, sort)


def read_text(path: Path) -> str:
    """The text of a job file, at most 1 MiB of UTF-8."""
    try:
        status = path.stat()
        if S_ISDIR(status.st_mode):
            raise SpecError("this is a folder", where=str(path), fix=_files_in(path))
        if not S_ISREG(status.st_mode):
            raise SpecError("this isn't a regular file", where=str(path), fix="Give the path of a job file.")
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
    except FileNotFoundError:
        close = nearest(path.name, _yaml_names(path.parent))
        raise SpecError("no such file", where=str(path), fix=close or "Check the path.") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise SpecError(f"can't be read: {reason}", where=shown(str(path)).strip("`")) from None
    return _decoded(content, str(path))


def _decoded(content: bytes, name: str) -> str:
    if len(content) > MOST_BYTES:
        raise SpecError("the file is larger than 1 MiB", where=name, fix="Such a file is text of a few pages.")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise SpecError("the file isn't UTF-8 text", where=f"{name}:{line}", fix="Save it as UTF-8.") from None


def _yaml_names(folder: Path) -> list[str]:
    try:
        return sorted(entry.name for entry in folder.iterdir() if entry.suffix in (".yml", ".yaml"))
    except OSError:
        return []


def _files_in(folder: Path) -> str:
    names = _yaml_names(folder)[:5]
    return f"It holds {words(names)}. Give the path of a file." if names else "Give the path of a job file."


@dataclass(frozen=True)
class Places:
    """Turns a key path into the `where` of a message."""

    text: str
    name: str
    root: Node | None = None
    changed: Mapping[Loc, str] = field(default_factory=dict[Loc, str])

    def __call__(self, loc: Loc, at: str, near: str) -> str:
        if self.root is None:
            place = next((where for path, where in self.changed.items() if loc[: len(path)] == path), None)
            return place or dotted((self.name, *loc))
        key, value, depth = self.nodes(self.root, loc)
        for path, where in self.changed.items():
            # Below what was set, or at what only the setting brought in.
            if loc[: len(path)] == path or (depth < len(loc) and path[: len(loc)] == loc):
                return where
        node = value if at == "value" and isinstance(value.value, str) else key
        line, column = self.found(value, near) if near else (node.line, node.column)
        return f"{self.name}:{line + 1}:{column + 1}"

    def nodes(self, root: Node, loc: Loc) -> tuple[Node, Node, int]:
        """The key and the value at a path, or of what lies nearest above it, and how far down that is."""
        key = value = root
        for depth, part in enumerate(loc):
            entry = value.child(part)
            if entry is None:
                return key, value, depth
            key, value = entry
        return key, value, len(loc)

    def found(self, node: Node, near: str) -> tuple[int, int]:
        """Line and column of a piece of a value's text; the value's own where it is written differently there."""
        at = self.text.find(near, node.start, node.end)
        if at < 0:
            return node.line, node.column
        line_start = self.text.rfind("\n", 0, at) + 1
        return node.line + self.text.count("\n", node.start, at), at - line_start


@dataclass(frozen=True)
class Sort:
    """What a file describes.

    noun: for messages. choose: the model for a document; may raise SpecError. least: what an empty file lacks.
    """

    noun: str
    choose: Callable[[Mapping[str, Any], Places], type[Model]]
    least: str = ""


def _checked(document: Mapping[str, Any], places: Places, problems: list[Problem], sort: Sort) -> Model:
    cls = sort.choose(document, places)
    seen: Seen = {}
    try:
        job = cls.model_validate(document, context=seen)
    except RecursionError:
        raise SpecError("nested too deep to be read", where=places.name, fix="Does it hold itself?") from None
    except ValidationError as error:
        problems += problems_of(error, document, seen, places)
        problems += _reference_problems(document, places) if cls is CommandJob else []
    else:
        if not problems:
            return job
    raise SpecError.of(sorted(dict.fromkeys(problems), key=_position))


def _position(problem: Problem) -> tuple[int, int]:
    """Line and column; what has none comes first, and what has no place at all last."""
    if not problem.where:
        return MOST_BYTES, 0
    _, *numbers = problem.where.rsplit(":", 2)
    line, column = numbers if len(numbers) == 2 else ("", "")
    return (int(line), int(column)) if line.isdecimal() and column.isdecimal() else (0, 0)


def _reference_problems(document: Mapping[str, Any], places: Places) -> list[Problem]:
    """What the command lacks, also where other problems kept the job from being looked at as a whole."""
    command, inputs, outputs = document.get("command"), document.get("inputs"), document.get("outputs")
    if not isinstance(command, str) or not all(isinstance(table, dict | None) for table in (inputs, outputs)):
        return []
    names = [[*cast("dict[str, object]", table or {})] for table in (inputs, outputs)]
    found = reference_contradictions(command, names[0], names[1], ())
    first = islice(found, MOST_PROBLEMS)
    return [Problem(f"`command`: {c.what}", places(c.key, "value", c.near), c.fix) for c in first]


def _class_for(document: Mapping[str, Any], places: Places) -> type[Model]:
    """The model that the file's `type` names; a file without one is a command job."""
    kind = document.get("type")
    match fold(kind) if isinstance(kind, str) else kind:
        case None | "command":
            return CommandJob
        case "sweep":
            from drumbeat.dialect.sweeping.sweep import SweepJob

            return SweepJob
        case "pipeline":
            from drumbeat.dialect.pipelines.pipeline_job import PipelineJob

            return PipelineJob
        case _:
            what = f"`type`: a job is {words(KINDS, 'or')}, not {shown(kind)}"
            raise SpecError.of([Problem(what, places(("type",), "value", ""), nearest(kind, KINDS))])


JOB = Sort("a job", _class_for, "`command:`")

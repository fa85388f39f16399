"""Loads a checked model from a file, a text or a mapping; reports all problems together, with line and column.

Callers hand in which models a document may be (`DocumentKind`); no model lives here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from typing import Any

from pydantic import ValidationError

from drumbeat.jobfile.reading.error_messages import (
    MAX_PROBLEMS,
    Seen,
    collect_problems,
    in_quotes,
    nearest,
    short,
    shown,
    words,
)
from drumbeat.jobfile.reading.model import Loc, Model, dotted
from drumbeat.jobfile.reading.overrides import Override, apply
from drumbeat.jobfile.reading.yaml_tree import MAX_BYTES, YamlNode, parse, plain
from drumbeat.model.errors import Problem, SpecError


@dataclass(frozen=True)
class Places:
    """Turns a key path into the `where` of a message."""

    text: str
    name: str
    root: YamlNode | None = None
    changed: Mapping[Loc, Override] = field(default_factory=dict[Loc, Override])
    """The key paths that settings from outside changed, with each setting."""

    def __call__(self, loc: Loc, at: str, near: str) -> str:
        if self.root is None:
            place = next((one.where for path, one in self.changed.items() if loc[: len(path)] == path), None)
            return place or dotted((self.name, *loc))
        key, value, depth = self.nodes(self.root, loc)
        for path, one in self.changed.items():
            # Below a key that was set, or at one that only exists because of the setting.
            if loc[: len(path)] == path or (depth < len(loc) and path[: len(loc)] == loc):
                return one.where
        node = value if at == "value" and isinstance(value.value, str) else key
        line, column = self.position(value, near) if near else (node.line, node.column)
        return f"{self.name}:{line + 1}:{column + 1}"

    def quoting(self, loc: Loc, text: str) -> str:
        """The advice to write the value at a path as a text, as it was typed: `007` isn't the number 7 then.

        text: the value as Python prints it, "" = it isn't to be shown.
        """
        own = (loc, loc[:-1]) if loc[-1:] in (("path",), ("default",)) else (loc,)
        typed = next((self.changed[path] for path in own if path in self.changed), None)
        if typed is not None:
            return f"""Write {typed.where}="'{short(typed.value) if text else "…"}'"."""
        if text and self.root is not None:
            _, value, depth = self.nodes(self.root, loc)
            text = short(value.value) if depth == len(loc) and isinstance(value.value, str) else text
        return in_quotes(loc, text)

    def nodes(self, root: YamlNode, loc: Loc) -> tuple[YamlNode, YamlNode, int]:
        """The key and the value at a path, or those of the nearest parent that exists, and the depth reached."""
        key = value = root
        for depth, part in enumerate(loc):
            entry = value.child(part)
            if entry is None:
                return key, value, depth
            key, value = entry
        return key, value, len(loc)

    def position(self, node: YamlNode, near: str) -> tuple[int, int]:
        """Line and column of `near` in a value's text; the value's own if the file spells it differently."""
        at = self.text.find(near, node.start, node.end)
        if at < 0:
            return node.line, node.column
        line_start = self.text.rfind("\n", 0, at) + 1
        return node.line + self.text.count("\n", node.start, at), at - line_start


@dataclass(frozen=True)
class DocumentKind:
    """A kind of document, such as a job, a compute or an environment."""

    noun: str
    """What messages call it."""
    choose_model: Callable[[Mapping[str, Any], Places], type[Model]]
    """Returns the model for a document; may raise SpecError."""
    required: str = ""
    """The keys that an empty file lacks, for that message."""


def load_model(path: str | Path, kind: DocumentKind, overrides: Sequence[str] = ()) -> Model:
    """Reads the model that a file describes; raises SpecError with every problem at its line."""
    return load_text(read_text(Path(path)), kind, str(path), overrides)


def load_text(text: str, kind: DocumentKind, name: str, overrides: Sequence[str] = ()) -> Model:
    """Reads the model that a YAML text describes; messages call the text `name`."""
    text = text.removeprefix("\ufeff")
    root = parse(text, name, kind.required)
    if not isinstance(root.value, dict):
        what = shown(plain(root, name)) if isinstance(root.value, str) else "a list"
        where = f"{name}:{root.line + 1}:{root.column + 1}"
        raise SpecError(f"{kind.noun} is a mapping of keys, not {what}", where=where)
    document: dict[str, Any] = plain(root, name)
    changed, problems = apply(document, overrides)
    return _checked(document, Places(text, name, root, changed), problems, kind)


def model_from(document: Mapping[str, Any], kind: DocumentKind, name: str, *, overrides: Sequence[str] = ()) -> Model:
    """Checks the model that a mapping describes.

    Overrides, each `key.path=value`, are applied to a copy of the mapping first.
    """
    if not isinstance(document, Mapping):
        raise SpecError(f"{kind.noun} is a mapping of keys, not {shown(document)}", where=name)
    if not overrides:
        return _checked(document, Places("", name), [], kind)
    copy = deepcopy(dict(document))
    changed, problems = apply(copy, overrides)
    return _checked(copy, Places("", name, None, changed), problems, kind)


def read_text(path: Path) -> str:
    """The text of a job file, at most 1 MiB of UTF-8."""
    try:
        status = path.stat()
        if S_ISDIR(status.st_mode):
            raise SpecError("this is a folder", where=str(path), fix=_files_in(path))
        if not S_ISREG(status.st_mode):
            raise SpecError("this isn't a regular file", where=str(path), fix="Give the path of a job file.")
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        close = nearest(path.name, _yaml_names(path.parent))
        raise SpecError("no such file", where=str(path), fix=close or "Check the path.") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise SpecError(f"can't be read: {reason}", where=shown(str(path)).strip("`")) from None
    return decode(content, str(path))


def decode(content: bytes, name: str) -> str:
    """The text of a file's content; refuses more than 1 MiB and what isn't UTF-8."""
    if len(content) > MAX_BYTES:
        raise SpecError("the file is larger than 1 MiB", where=name, fix="Such files are a few pages of text.")
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


def _checked(document: Mapping[str, Any], places: Places, problems: list[Problem], kind: DocumentKind) -> Model:
    cls = kind.choose_model(document, places)
    seen: Seen = {}
    try:
        model = cls.model_validate(document, context=seen)
    except RecursionError:
        raise SpecError("nested too deep to be read", where=places.name, fix="Does it hold itself?") from None
    except ValidationError as error:
        problems += collect_problems(error, document, seen, places, places.quoting)
        problems += _document_problems(cls, document, places)
    else:
        if not problems:
            return model
    raise SpecError.from_problems(sorted(dict.fromkeys(problems), key=_position))


def _position(problem: Problem) -> tuple[int, int]:
    """Line and column; problems at a file without a line come first, those without any place last."""
    if not problem.where:
        return MAX_BYTES, 0
    _, *numbers = problem.where.rsplit(":", 2)
    line, column = numbers if len(numbers) == 2 else ("", "")
    return (int(line), int(column)) if line.isdecimal() and column.isdecimal() else (0, 0)


def _document_problems(cls: type[Model], document: Mapping[str, Any], places: Places) -> list[Problem]:
    """Contradictions that the model finds in a document that isn't valid."""
    first = islice(cls.document_contradictions(document), MAX_PROBLEMS)
    return [Problem(f"`{dotted(c.key)}`: {c.what}", places(c.key, "value", c.near), c.fix) for c in first]

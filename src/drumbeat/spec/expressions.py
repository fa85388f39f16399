"""The `${{ }}` and `$[[ ]]` of commands and paths: finding, checking and filling them. Nothing here knows a job."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from drumbeat.protocol.errors import Problem, SpecError
from drumbeat.spec.problems import either, shown

Kind = Literal[
    "inputs",
    "outputs",
    "search_space",
    "parent.inputs",
    "parent.outputs",
    "parent.jobs.inputs",
    "parent.jobs.outputs",
    "name",
]

INSIDE = re.compile(r"\s*([^\s{}][^{}]*?)\s*")
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
SINGLE = ("inputs", "outputs", "search_space")
MARK = re.compile(r"\$\{\{|\$\[\[|\]\]")
FORMS = (
    "Valid: ${{inputs.x}}, ${{outputs.x}}, ${{search_space.x}}, ${{parent.inputs.x}}, ${{parent.jobs.s.outputs.y}}, "
    "${{name}}."
)


NOUNS: dict[Kind, str] = {
    "inputs": "input",
    "outputs": "output",
    "search_space": "value in the search space named",
    "parent.inputs": "input of the pipeline named",
    "parent.outputs": "output of the pipeline named",
    "parent.jobs.inputs": "such step input",
    "parent.jobs.outputs": "such step output",
    "name": "name",
}


@dataclass(frozen=True)
class Reference:
    """One `${{ }}`: what it points at, its text as written, and where in the template it starts.

    `path` is what lies below a name (`x.y` of a nested group or a folder's part), `job` the step of a `parent.jobs`.
    """

    kind: Kind
    name: str
    text: str
    start: int
    job: str = ""
    path: str = ""
    optional: bool = False


class Malformed(ValueError):
    """An expression that can't be read: what is wrong, and where it starts."""

    def __init__(self, what: str, start: int) -> None:
        super().__init__(what)
        self.what, self.start = what, start


def references(template: str) -> tuple[Reference, ...]:
    """Every reference in order. Raises `SpecError` for a malformed one."""
    try:
        return tuple(part for part in parts(template) if isinstance(part, Reference))
    except Malformed as error:
        raise SpecError(error.what, fix=FORMS) from None


def render(template: str, resolve: Callable[[Reference], str | None]) -> str:
    """The template with every reference filled.

    `resolve` gives None for a value that is absent: inside `$[[ ]]` the bracketed part goes, outside `SpecError`.
    """
    done: list[str] = []
    bracket: list[str] | None = None
    dropped = False
    try:
        for part in parts(template):
            if isinstance(part, Reference):
                value = resolve(part)
                if value is None and bracket is None:
                    raise SpecError(f"{part.text} has no value", fix="Set it, or put its use in `$[[ ]]`.")
                dropped = dropped or value is None
                (done if bracket is None else bracket).append(value or "")
            elif part == "$[[":
                bracket, dropped = [], False
            elif part == "]]" and bracket is not None:
                done += [] if dropped else bracket
                bracket = None
            else:
                (done if bracket is None else bracket).append(part)
    except Malformed as error:
        raise SpecError(error.what, fix=FORMS) from None
    return "".join(done)


def parts(template: str) -> Iterator[str | Reference]:
    """The template cut into texts, references, `$[[` and the `]]` that closes one."""
    at = 0
    opened: int | None = None
    while mark := MARK.search(template, at):
        if mark.start() > at:
            yield template[at : mark.start()]
        at = mark.end()
        if mark[0] == "${{":
            close = template.find("}}", at)
            if close < 0:
                raise Malformed(f"{shown(template[mark.start() :])} is never closed with `}}}}`", mark.start())
            yield read(template[at:close], template[mark.start() : close + 2], mark.start(), opened is not None)
            at = close + 2
        elif mark[0] == "$[[":
            if opened is not None:
                raise Malformed("a `$[[` inside of another `$[[`", mark.start())
            opened = mark.start()
            yield "$[["
        else:
            # Only after `$[[` does `]]` close something; shell tests have it too.
            yield "]]" if opened is not None else "]" + "]"
            opened = None
    if opened is not None:
        raise Malformed(f"{shown(template[opened:])} is never closed with `]]`", opened)
    if at < len(template):
        yield template[at:]


def read(inside: str, text: str, start: int, optional: bool) -> Reference:  # noqa: FBT001
    """The reference that stands between the braces."""
    match = INSIDE.fullmatch(inside)
    words = match[1].split(".") if match else []
    if not words or not all(NAME.fullmatch(word) for word in words):
        raise Malformed(f"{shown(text)} isn't an expression", start)
    if words == ["name"]:
        return Reference("name", "", text, start, optional=optional)
    if words[0] in SINGLE and len(words) > 1:
        return Reference(_kind(words[0]), words[1], text, start, path=".".join(words[2:]), optional=optional)
    if words[0] == "parent" and len(words) > 2 and words[1] in ("inputs", "outputs"):
        kind = _kind(f"parent.{words[1]}")
        return Reference(kind, words[2], text, start, path=".".join(words[3:]), optional=optional)
    # `${{jobs.s.outputs.y}}` is the older form of `${{parent.jobs.s.outputs.y}}`.
    steps = words[1:] if words[0] == "parent" else words
    if steps[0] == "jobs" and len(steps) > 3 and steps[2] in ("inputs", "outputs"):
        kind = _kind(f"parent.jobs.{steps[2]}")
        return Reference(kind, steps[3], text, start, job=steps[1], path=".".join(steps[4:]), optional=optional)
    raise Malformed(f"{shown(text)} isn't an expression", start)


def _kind(word: str) -> Kind:
    kinds: dict[str, Kind] = {
        "inputs": "inputs", "outputs": "outputs", "search_space": "search_space", "parent.inputs": "parent.inputs",
        "parent.outputs": "parent.outputs", "parent.jobs.inputs": "parent.jobs.inputs",
        "parent.jobs.outputs": "parent.jobs.outputs",
    }  # fmt: skip
    return kinds[word]


def missing(
    template: str, names: Mapping[str, Sequence[str]], optional: Sequence[str] = ()
) -> Iterator[tuple[Problem, str]]:
    """What can't be filled in `template`, with the text of each: `names` has, for each kind, the valid names.

    An optional input that stands outside of `$[[ ]]` is one too: without a value nothing could be put in its place.
    """
    told: set[tuple[str, str]] = set()
    try:
        for found in parts(template):
            if not isinstance(found, Reference) or (found.kind, found.name) in told:
                continue
            told.add((found.kind, found.name))
            problem = _missing(found, names)
            if problem:
                yield problem, found.text
            elif found.kind == "inputs" and found.name in optional and not found.optional:
                fix = "Put its use in `$[[ ]]`, or give the input a default."
                yield Problem(f"{found.text} is optional and may have no value here", fix=fix), found.text
    except Malformed as error:
        yield Problem(error.what, fix=FORMS), template[error.start :][:40]


def _missing(found: Reference, names: Mapping[str, Sequence[str]]) -> Problem | None:
    if found.kind == "name" and "name" in names:
        return None
    if found.kind not in names:
        return Problem(f"{found.text} has no meaning here")
    valid = names[found.kind]
    if found.name in valid:
        return None
    what = NOUNS[found.kind]
    fix = either(found.name, valid, "There are" if len(valid) > 1 else "There is") or f"Add it under `{found.kind}:`."
    return Problem(f"{found.text}: there is no {what} `{found.name}`", fix=fix)

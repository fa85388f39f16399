"""The `${{ }}` and `$[[ ]]` of commands and paths: finding, checking and filling them. Nothing here knows a job."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from drumbeat.jobfile.reading.error_messages import either, shown
from drumbeat.model.errors import Problem, SpecError

Kind = Literal[
    "inputs",
    "outputs",
    "search_space",
    "parent.inputs",
    "parent.outputs",
    "parent.jobs.inputs",
    "parent.jobs.outputs",
    "name",
    "default_datastore",
    "output_name",
]
WORDS: tuple[Kind, ...] = ("name", "default_datastore", "output_name")
"""Expressions of one word: the job's name, the pipeline's default datastore, the name of the output itself."""

WORD = "[A-Za-z_][A-Za-z0-9_-]*"
FORM = re.compile(
    rf"(inputs|outputs|search_space|parent\.inputs|parent\.outputs|(?:parent\.)?jobs\.({WORD})\.(inputs|outputs))"
    rf"\.({WORD})(?:\.([A-Za-z0-9_.-]+))?"
)
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
    "default_datastore": "name",
    "output_name": "name",
}
KINDS: dict[str, Kind] = {kind: kind for kind in NOUNS}


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
    """Raised for an invalid expression: what is wrong, and where it starts."""

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
            yield read(template[mark.start() : close + 2], mark.start(), optional=opened is not None)
            at = close + 2
        elif mark[0] == "$[[":
            if opened is not None:
                raise Malformed("a `$[[` inside of another `$[[`", mark.start())
            opened = mark.start()
            yield "$[["
        else:
            # Closes a `$[[`; without one it is a plain text, as in the shell's own tests.
            opened = None
            yield "]]"
    if opened is not None:
        raise Malformed(f"{shown(template[opened:])} is never closed with `]]`", opened)
    if at < len(template):
        yield template[at:]


def read(text: str, start: int, *, optional: bool) -> Reference:
    """The reference that `text`, braces included, says."""
    inside = text[3:-2].strip()
    if inside in WORDS:
        return Reference(KINDS[inside], "", text, start, optional=optional)
    match = FORM.fullmatch(inside)
    if not match:
        raise Malformed(f"{shown(text)} isn't an expression", start)
    scope, job, table, name, path = match.groups()
    # `jobs.s.outputs.y` is the older form of `parent.jobs.s.outputs.y`.
    kind = KINDS[f"parent.jobs.{table}" if job else scope]
    return Reference(kind, name, text, start, job or "", path or "", optional)


def missing(
    template: str, names: Mapping[str, Sequence[str]], optional: Sequence[str] = ()
) -> Iterator[tuple[Problem, str]]:
    """Yields a problem for each reference that can't be resolved, with its text.

    `names` has the valid names of each kind. An optional input outside of `$[[ ]]` is a problem, too: it may have no
    value.
    """
    reported: set[tuple[str, str, bool]] = set()
    try:
        for reference in parts(template):
            if not isinstance(reference, Reference) or (reference.kind, reference.name, reference.optional) in reported:
                continue
            reported.add((reference.kind, reference.name, reference.optional))
            problem = _missing(reference, names)
            if problem:
                yield problem, reference.text
            elif reference.kind == "inputs" and reference.name in optional and not reference.optional:
                fix = "Put its use in `$[[ ]]`, or give the input a default."
                yield Problem(f"{reference.text} is optional and may have no value here", fix=fix), reference.text
    except Malformed as error:
        yield Problem(error.what, fix=FORMS), template[error.start :][:40]


def _missing(reference: Reference, names: Mapping[str, Sequence[str]]) -> Problem | None:
    if reference.kind in WORDS and reference.kind in names:
        return None
    if reference.kind not in names:
        return Problem(f"{reference.text} has no meaning here")
    valid = names[reference.kind]
    if reference.path and "parent.inputs" not in names:
        return Problem(
            f"{reference.text}: `{reference.name}` has no parts to name",
            fix="A file inside is written behind the braces: `}}/part`.",
        )
    if reference.name in valid:
        return None
    what = NOUNS[reference.kind]
    fix = (
        either(reference.name, valid, "There are" if len(valid) > 1 else "There is")
        or f"Add it under `{reference.kind}:`."
    )
    return Problem(f"{reference.text}: there is no {what} `{reference.name}`", fix=fix)

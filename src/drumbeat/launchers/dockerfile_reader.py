"""The parts of a Dockerfile that drumbeat reads: the images that it needs, and the line of each instruction.

The command that builds an image is in `container_command.py`.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass

_INSTRUCTION = re.compile(r"\s*([A-Za-z]+)\s+(.*)", re.DOTALL)
_FLAG = re.compile(r"--([a-z-]+)(?:=(\S+))?\s*")
_HERE = re.compile(r"(?<!\S)\d*<<-?([\"']?)([A-Za-z_]\w*)\1(?!\S)")
"""A here-document is a separate word for BuildKit; `<<<"$x"` and `$((a<<b))` aren't here-documents."""
_VARIABLE = re.compile(r"\$(?:\{(\w+)(?::?-([^}]*))?\}|(\w+))")


@dataclass(frozen=True)
class Instruction:
    """One instruction of a Dockerfile."""

    line: int
    """The line where it begins, counted from 1."""
    word: str
    """Its keyword, in capitals."""
    rest: str
    """Its arguments, in one line."""

    @property
    def text(self) -> str:
        """The instruction as build tools print it."""
        return f"{self.word} {self.rest}"


def instructions(text: str) -> list[Instruction]:
    """Every instruction in order, with continued lines joined; other lines are skipped."""
    listing: list[Instruction] = []
    for line, joined in _logical(text):
        if match := _INSTRUCTION.fullmatch(joined):
            listing.append(Instruction(line, match[1].upper(), " ".join(match[2].split())))
    return listing


def _logical(text: str) -> Iterator[tuple[int, str]]:
    held: list[str] = []
    first, ends = 1, list[str]()
    for number, raw in enumerate(text.removeprefix("\ufeff").splitlines(), 1):
        if ends:  # Inside a here-document.
            ends = ends[1:] if raw.strip() == ends[0] else ends
            continue
        if raw.lstrip().startswith("#") or not (held or raw.strip()):
            continue
        first = first if held else number
        held.append(raw.rstrip().removesuffix("\\"))
        if raw.rstrip().endswith("\\"):
            continue
        joined = " ".join(held)
        held.clear()
        ends = [match[2] for match in _HERE.finditer(joined)]
        yield first, joined
    if held:
        yield first, " ".join(held)


def images(text: str) -> tuple[str, ...]:
    """The images that a Dockerfile needs, each once: those of FROM and of `COPY --from`, without its own stages.

    Variables have their defaults from the Dockerfile; an image whose name has other variables is left out.
    """
    given: dict[str, str] = {}
    stages, images_used = {"scratch"}, list[str]()
    for one in instructions(text):
        flags, rest = _flags(one.rest)
        if one.word == "ARG" and len(stages) == 1 and not images_used:
            given |= _defaults(rest)
        elif one.word == "FROM" and rest:
            words = rest.split()
            _add(images_used, _expanded(words[0], given), stages)
            stages |= {words[2].lower()} if [word.upper() for word in words[1:2]] == ["AS"] and words[2:] else {""}
        elif one.word == "COPY" and flags.get("from") and not flags["from"].isdigit():
            _add(images_used, flags["from"], stages)
    return tuple(images_used)


def _add(images_used: list[str], image: str, stages: set[str]) -> None:
    if image and "$" not in image and image.lower() not in stages and image not in images_used:
        images_used.append(image)


def _flags(rest: str) -> tuple[dict[str, str], str]:
    """`--platform=x name` gives ({"platform": "x"}, "name")."""
    flags: dict[str, str] = {}
    while match := _FLAG.match(rest):
        flags[match[1]] = match[2] or ""
        rest = rest[match.end() :]
    return flags, rest


def _defaults(rest: str) -> dict[str, str]:
    """`A=1 B="2"` gives {"A": "1", "B": "2"}."""
    try:
        words = shlex.split(rest)
    except ValueError:  # An unclosed quote.
        words = rest.split()
    return {name: value for name, _, value in (word.partition("=") for word in words)}


def _expanded(text: str, given: dict[str, str]) -> str:
    def value(match: re.Match[str]) -> str:
        return given.get(match[1] or match[3]) or match[2] or match[0]

    return _VARIABLE.sub(value, text)

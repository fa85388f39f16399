"""The texts of an environment's files, as a client brought them to the server."""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass, field

from drumbeat.protocol.errors import Problem, SpecError

MOST_FILES = 50
MOST_BYTES = 1024 * 1024

REQUIREMENTS_SUFFIXES = (".txt", ".in")


@dataclass(frozen=True)
class Texts:
    """What stands in the files that an environment names, and in those that they name.

    main: the file to begin with, as messages call it; "" = there is none. files: name to text; what a file takes in is
    called as its path counts from that file's folder (`beside`). lines: where a conda file is written out in the job:
    the line there of each of its requirements, in order; 0 = unknown. context: SHA-256 of the snapshot with the folder
    of `build`, "" = it didn't come; dockerfile: which of the files is its Dockerfile, "" = it has none.
    """

    main: str = ""
    files: dict[str, str] = field(default_factory=dict[str, str])
    lines: tuple[int, ...] = ()
    context: str = ""
    dockerfile: str = ""


def beside(name: str, other: str) -> str:
    """What a file is called that the file `name` calls `other`: `conda/env.yml` and `../pip.txt` give `pip.txt`."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(name), other))


def is_requirements(name: str) -> bool:
    """Whether a file of this name is taken for requirements, and not for a conda file."""
    return name.lower().endswith(REQUIREMENTS_SUFFIXES)


INCLUDES = re.compile(
    r"^\s*(?:-\s+)?[\"']?(?:-r|--requirement|-c|--constraint)(?:\s+|=)?[\"']?([^\s\"'#]+)", re.MULTILINE
)


def included(text: str) -> list[str]:
    """The files that a requirements file, or the pip part of a conda file, takes in by `-r` or `-c`."""
    return INCLUDES.findall(text)


def at(name: str, line: int, what: str, fix: str = "") -> SpecError:
    """A refusal at a line of a file; 0 = no line is known."""
    return SpecError.of([Problem(what, f"{name}:{line}" if line else name, fix)])

"""Names and includes of the files of an environment that a client sends (`EnvironmentFiles`)."""

from __future__ import annotations

import posixpath

from drumbeat.model.errors import Problem, SpecError

MAX_BYTES = 1024 * 1024

REQUIREMENTS_SUFFIXES = (".txt", ".in")


def beside(name: str, other: str) -> str:
    """Returns the name of the file that `name` includes as `other`: `conda/env.yml` and `../pip.txt` give `pip.txt`."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(name), other))


def is_requirements(name: str) -> bool:
    """Whether a file of this name is taken for requirements, and not for a conda file."""
    return name.lower().endswith(REQUIREMENTS_SUFFIXES)


def at(name: str, line: int, what: str, fix: str = "") -> SpecError:
    """A refusal at a line of a file; 0 = no line is known."""
    return SpecError.from_problems([Problem(what, f"{name}:{line}" if line else name, fix)])

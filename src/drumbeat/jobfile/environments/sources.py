"""Packages that nodes build from source: each is one of the requirements, at one version."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from drumbeat.jobfile.environments import requirements
from drumbeat.jobfile.environments.environment_keys import FromSource
from drumbeat.jobfile.environments.requirements import RequirementLine
from drumbeat.jobfile.reading.error_messages import nearest, shown
from drumbeat.model.api.requests import EnvironmentFiles
from drumbeat.model.errors import Problem, SpecError
from drumbeat.model.plan import SourceBuild

_AT = "environment.drumbeat.from_source"
_EXACT = re.compile(r"[^@<>!~;]+(?:===?[^=*,;<>!~ ]+| @ \S+)(?:;.*)?")
"""A version or an address: two nodes that build it have the same source."""


def builds(wanted: Mapping[str, FromSource], lines: Sequence[RequirementLine]) -> tuple[SourceBuild, ...]:
    """The builds that an environment asks for. Raises SpecError with all that is wrong with them."""
    packages = {project_name(line.text): line for line in lines if not requirements.is_option(line.text)}
    problems = [problem for name in wanted for problem in _problems(name, packages)]
    if problems:
        raise SpecError.from_problems(problems)
    made = [_build(name, one) for name, one in wanted.items()]
    return tuple(sorted(made, key=lambda one: one.package))


def project_name(requirement: str) -> str:
    """The project that a requirement names, as all spellings of it agree."""
    from packaging.utils import canonicalize_name

    return canonicalize_name(re.split(r"[\s\[=<>!~;@]", requirement.strip(), maxsplit=1)[0])


def _problems(name: str, packages: Mapping[str, RequirementLine]) -> list[Problem]:
    line = packages.get(project_name(name))
    if line is None:
        fix = nearest(name, packages) or f"Add {name}==VERSION to them, or take it out here."
        return [Problem(f"{shown(name)} isn't among the requirements", f"{_AT}.{name}", fix)]
    if not _EXACT.fullmatch(requirements.normal(line).strip()):
        what = f"{shown(line.text)} is built from source, and which version isn't said"
        return [Problem(what, f"{line.file}:{line.number}" if line.number else line.file, f"Write {name}==VERSION.")]
    return []


def _build(name: str, one: FromSource) -> SourceBuild:
    where = f"{_AT}.{name}.requires"
    required = requirements.read_items(EnvironmentFiles(where), where, [(text, 0) for text in one.requires])
    return SourceBuild(
        package=project_name(name),
        variables=dict(one.variables),
        cxx_standard=one.cxx_standard or 0,
        requires=tuple(line.text for line in required),
        programs=tuple(one.programs),
        linked_to=tuple(one.linked_to),
    )

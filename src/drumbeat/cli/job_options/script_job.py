"""Drafts the job file that `init` writes for a script."""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from drumbeat.cli.job_options.job_file_text import COMMENTS
from drumbeat.cli.job_options.script_analysis import find_framework, read_script

ENVIRONMENT_FILES = (
    "requirements.txt", "conda.yml", "conda.yaml", "environment.yml", "environment.yaml", "conda_dependencies.yml",
)  # fmt: skip
ONE_PROCESS = "It is one process: nothing in the script starts or joins others."


@dataclass(frozen=True)
class Draft:
    """A job file's keys, their comments, and the reason for its distribution in a sentence."""

    document: dict[str, Any]
    comments: dict[str, str]
    reason: str


def draft_for(script: Path, folder: Path) -> Draft:
    """Drafts the job file for a script. folder: where the file will lie."""
    distribution, reason = _distribution(script)
    code, path = _code(script, folder)
    environment = _environment(script, folder)
    document: dict[str, Any] = {
        "command": shlex.join([*_program(script, path), path] if _program(script, path) else [f"./{path}"]),
        "code": code,
        **({"environment": {"conda_file": environment}} if environment else {}),
        **({"distribution": distribution} if distribution else {}),
        "resources": {"instance_count": 1},
    }
    per_node = "Ranks on each node; with GPUs, usually one for each."
    comments = {**COMMENTS, "distribution": reason, "distribution.process_count_per_instance": per_node}
    if not distribution:
        comments["command"] = f"Runs in the code's folder. {reason}"
    if distribution and distribution["type"] in ("ray", "mpi", "tensorflow"):
        comments["command"] = "Runs in the code's folder."
    return Draft(document, comments, reason)


def _distribution(script: Path) -> tuple[dict[str, Any] | None, str]:
    if script.suffix != ".py":
        return None, "It is one process: only Python scripts are looked into."
    read = read_script(script)
    if not read.is_readable:
        return None, "It is one process: the script could not be parsed as Python."
    match find_framework(read):
        case None:
            return None, ONE_PROCESS
        case framework, mark:
            return framework.distribution, f"The script uses {mark}: {framework.about}"


def _program(script: Path, path: str) -> list[str]:
    if script.suffix == ".py":
        return ["python"]
    return [] if os.access(script, os.X_OK) and "/" not in path and script.suffix not in (".sh", ".bash") else ["bash"]


def _code(script: Path, folder: Path) -> tuple[str, str]:
    """Returns the code's folder as the file names it, and the script's path in that folder."""
    place = script.absolute()
    if place.is_relative_to(folder):
        return ".", str(place.relative_to(folder))
    return os.path.relpath(place.parent, folder), place.name


def _environment(script: Path, folder: Path) -> str | None:
    """Returns the requirements or conda file beside the script, else beside the job file."""
    for place in dict.fromkeys((script.absolute().parent, folder)):
        for name in ENVIRONMENT_FILES:
            if (place / name).is_file():
                return os.path.relpath(place / name, folder)
    return None

"""The words after `--`: taken off the command line, and joined to the shell line of a job."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from typer.core import TyperCommand
from typer.exceptions import TyperException

from drumbeat.model.errors import SpecError

SEPARATOR = "--"
WORDS = "drumbeat.words"
"""Key of a context's `meta`: the words behind `--`, or None where there is no `--`."""

PARAMETER = "AZUREML_PARAMETER_"
"""Begins the variables with which every process of a job gets its literal inputs
(`launchers/environment_variables.py`).
"""

EXPRESSION = re.compile(r"(\$\{\{.*?\}\})")
PROGRAM = re.compile(r"python[0-9.]*|torchrun|accelerate|deepspeed|horovodrun|mpirun")
SCRIPT_SUFFIXES = (".py", ".sh", ".bash")


class JobCommand(TyperCommand):
    """A command that takes a job file, or `--` and the command to run."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parses what stands before `--`."""
        at = args.index(SEPARATOR) if SEPARATOR in args else len(args)
        own = args[:at]
        ctx.meta[WORDS] = args[at + 1 :] if at < len(args) else None
        try:
            return super().parse_args(ctx, [*own])
        except TyperException:
            if at == len(args):
                require_separator(own)
            raise

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Adds the form without a file to the usage."""
        return [*super().collect_usage_pieces(ctx), "[-- COMMAND…]"]


def require_separator(words: Sequence[str]) -> None:
    """Raises SpecError where the words hold a command without a `--` before it."""
    at = next((place for place, word in enumerate(words) if _starts_a_command(word)), None)
    if at is None:
        return
    line = shlex.join([*words[:at], SEPARATOR, *_as_command(words[at:])])
    what = f"`{words[at]}` is not a job file, and no `--` stands before it"
    raise SpecError(what, where=shlex.join(words), fix=f"To run a command without a job file: drumbeat run {line}")


def _starts_a_command(word: str) -> bool:
    if word.startswith("-") or word.endswith((".yml", ".yaml")):
        return False
    is_program = PROGRAM.fullmatch(word) or shutil.which(word)
    return word.endswith(SCRIPT_SUFFIXES) or (bool(is_program) and not Path(word).is_file())


def _as_command(words: Sequence[str]) -> list[str]:
    """Returns the words with the program that runs them, where the first one is a script."""
    first = words[0]
    if first.endswith(".py"):
        return ["python", *words]
    return ["bash", *words] if first.endswith(SCRIPT_SUFFIXES) else [*words]


def shell_line(words: Sequence[str], literals: Mapping[str, object]) -> str:
    """Returns the words as one line that a shell splits into the same words again.

    A single word with spaces is a shell line already. Expressions stay expressions: drumbeat quotes the paths that
    replace them; the values of `literals` replace them as they are, so those with special characters are quoted here.
    No quotes hold a value that has a single quote itself: its variable takes the place of its expression.
    Raises SpecError where there is no word.
    """
    if not any(word.strip() for word in words):
        fix = "Write the command behind it: drumbeat run -- python train.py"
        raise SpecError("no command follows `--`", where=SEPARATOR, fix=fix)
    if len(words) == 1 and len(words[0].split()) > 1:
        return words[0]
    return " ".join(_quoted(word, literals) for word in words)


def _quoted(word: str, literals: Mapping[str, object]) -> str:
    pieces = [piece for piece in EXPRESSION.split(word) if piece]
    return "".join(_piece(piece, literals) for piece in pieces) or "''"


def _piece(piece: str, literals: Mapping[str, object]) -> str:
    if not EXPRESSION.fullmatch(piece):
        return shlex.quote(piece)
    name = piece[3:-2].strip().removeprefix("inputs.")
    text = str(literals.get(name, "x"))
    if "'" in text:
        return f'"${PARAMETER}{name}"'
    return piece if shlex.quote(text) == text else f"'{piece}'"

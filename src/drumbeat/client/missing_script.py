"""Whether the script that a command starts is in the code folder: a rank would find out only when it runs."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from drumbeat.dialect.reading.error_messages import nearest, short

_CHANGE_FOLDER = re.compile(r"\s*cd\s+([\w./-]+)\s*(?:&&|;|\n)\s*")
_ASSIGNMENT = re.compile(r"\w+=\S*")
_INTERPRETER = re.compile(r"(?:python(?:3(?:\.\d+)?)?|(?:ba|z|da)?sh)")
_LAUNCHERS = ("torchrun", "accelerate", "deepspeed", "horovodrun", "mpirun", "mpiexec")
_WITH_VALUES = ("-W", "-X")
"""Options of Python whose value is the next word."""
_NO_FILE = ("-m", "-c")
"""Behind these Python gets no file."""
MAX_ENTRIES = 200


def missing_script(command: str, code: Path) -> tuple[str, str] | None:
    """Returns the path of a script that isn't in the code folder, and the nearest name; None where nothing is missing.

    It is looked for only where the command begins with it: what comes later may be made by what comes before.
    """
    folder, rest = code, command
    if moved := _CHANGE_FOLDER.match(command):
        folder, rest = code / moved[1], command[moved.end() :]
    script = started_script(re.split(r"[;&|\n]", rest, maxsplit=1)[0])
    if not script or script.startswith(("/", "~")) or re.search(r"[$*?{\[\\]", script) or not folder.is_dir():
        return None
    if (folder / script).exists():
        return None
    place = (folder / script).parent
    names = sorted(one.name for one in place.iterdir())[:MAX_ENTRIES] if place.is_dir() else []
    return short(script), nearest(Path(script).name, [name for name in names if name.endswith(Path(script).suffix)])


def started_script(line: str) -> str:
    """The file that a shell command starts by an interpreter or a launcher, or by its own path; "" = none."""
    try:
        words = shlex.split(line)
    except ValueError:  # Quotes that aren't closed: the command goes on behind a `;` within them.
        return ""
    while words and _ASSIGNMENT.fullmatch(words[0]):
        words = words[1:]
    if not words:
        return ""
    program = words[0].rsplit("/", 1)[-1]
    if _INTERPRETER.fullmatch(program):
        return _of_interpreter(words[1:])
    if program in _LAUNCHERS:
        return next((word for word in words[1:] if word.endswith(".py") and not word.startswith("-")), "")
    return words[0] if words[0].startswith("./") else ""


def _of_interpreter(words: list[str]) -> str:
    """The first word that isn't an option."""
    is_value = False
    for word in words:
        if is_value:
            is_value = False
        elif word in _NO_FILE or word == "-":
            return ""
        elif not word.startswith("-"):
            return word
        else:
            is_value = word in _WITH_VALUES
    return ""

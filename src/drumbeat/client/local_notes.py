"""What only the client sees of a job, and a user should know: said in its plan, and when it is accepted.

These notes never refuse a job.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path

from drumbeat.client.ignore_files import ALWAYS, FILES, IgnoreRules
from drumbeat.client.snapshot import holds, is_empty
from drumbeat.jobfile.reading.error_messages import nearest, short
from drumbeat.model.plurals import counted

DEFAULT_OUTPUTS = "outputs"
"""The folder in which the ranks of a job find its default output."""
ASKS_FOR_A_PATH = ("./", "../", "azureml:", "file:///")


def notes_on_code(code: Path, written: str) -> Iterator[str]:
    """Notes that nothing of the folder is sent, and why; and that old outputs in it become the job's."""
    if not code.is_dir():
        return
    if not is_empty(code, "code"):
        yield from _notes_on_old_outputs(code)
        return
    folder = short(written)
    entries = sorted({one.name for one in code.iterdir()} - ALWAYS - {*FILES})
    rules = IgnoreRules.for_folder(code)
    lines = {rules.line(f"{name}/" if (code / name).is_dir() else name) for name in entries}
    if not any(lines):
        yield f"nothing of code is sent: there is no file in {folder}"
        return
    whole = f"line {min(lines)} of {rules.file}" if len(lines) == 1 and min(lines) else rules.file
    yield f"nothing of code is sent: {whole} leaves out all that is in {folder}"


def notes_on_script(command: object, code: Path, written: str) -> Iterator[str]:
    """Notes that the script with which the command begins isn't in the code folder."""
    missing = missing_script(command, code) if isinstance(command, str) else None
    if missing:
        script, close = missing
        yield f"the command starts {script}, which isn't in the code folder `{short(written)}`. {close}".rstrip()


def _notes_on_old_outputs(code: Path) -> Iterator[str]:
    old = code / DEFAULT_OUTPUTS
    if old.is_dir() and not old.is_symlink() and holds(code, DEFAULT_OUTPUTS):
        count = sum(holds(code, str(place.relative_to(code))) for place in old.rglob("*") if place.is_file())
        if count:
            yield (
                f"{DEFAULT_OUTPUTS}/ of the code has {counted(count, 'file')}, with which the job's outputs begin; a "
                f"line `{DEFAULT_OUTPUTS}/` in .amlignore leaves them out"
            )


def notes_on_texts(inputs: Mapping[str, object], base: Path, code: Path | None) -> Iterator[str]:
    """Notes that an input is a text, though it looks like a path that the ranks won't find."""
    for name, value in inputs.items():
        if not isinstance(value, str) or not _is_like_a_path(value, base):
            continue
        if code and code.is_dir() and holds(code, value):  # The ranks start in it, and find it by that very text.
            continue
        kind = "uri_file" if _is_there(base, value) and (base / value).is_file() else "uri_folder"
        text = short(value)
        yield (
            f"inputs.{name} is the text `{text}`, and no files come with it; for files write "
            f"`{name}: {{type: {kind}, path: {text}}}`"
        )


def _is_like_a_path(text: str, base: Path) -> bool:
    if text.startswith(ASKS_FOR_A_PATH):
        return True
    return bool(text.strip("./")) and not text.startswith(("/", "~")) and _is_there(base, text)


def _is_there(base: Path, text: str) -> bool:
    try:
        return (base / text).exists()
    except (OSError, ValueError):  # Too long for a name, or with a NUL in it.
        return False


_CHANGE_FOLDER = re.compile(r"\s*cd\s+([\w./-]+)\s*(?:&&|;|\n)\s*")
_ASSIGNMENT = re.compile(r"\w+=\S*")
_INTERPRETER = re.compile(r"(?:python(?:3(?:\.\d+)?)?|(?:ba|z|da)?sh)")
_LAUNCHERS = ("torchrun", "accelerate", "deepspeed", "horovodrun", "mpirun", "mpiexec")
_WITH_VALUES = ("-W", "-X")
"""Options of Python whose value is the next word."""
_NO_FILE = ("-m", "-c")
"""Options after which Python takes no file."""
MAX_ENTRIES = 200


def missing_script(command: str, code: Path) -> tuple[str, str] | None:
    """Returns the path of a script that isn't in the code folder, and the nearest name; None where nothing is missing.

    A rank would find out only when it runs. The script is looked for only where the command begins with it: what comes
    later may be made by what comes before.
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
        return _script_of_interpreter(words[1:])
    if program in _LAUNCHERS:
        return next((word for word in words[1:] if word.endswith(".py") and not word.startswith("-")), "")
    return words[0] if words[0].startswith("./") else ""


def _script_of_interpreter(words: list[str]) -> str:
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

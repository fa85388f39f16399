"""What only the client sees of a job, and a person should know: said in its plan, and when it is accepted.

Nothing is refused here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from drumbeat.client.ignore_files import ALWAYS, FILES, IgnoreRules
from drumbeat.client.missing_script import missing_script
from drumbeat.client.snapshot import holds, is_empty
from drumbeat.dialect.reading.error_messages import short
from drumbeat.protocol.plurals import counted

DEFAULT_OUTPUTS = "outputs"
"""The folder in which the ranks of a job find its default output."""
ASKS_FOR_A_PATH = ("./", "../", "azureml:", "file:///")


def of_code(code: Path, written: str) -> Iterator[str]:
    """That nothing of the folder is sent, and why; and that old outputs in it become the job's."""
    if not code.is_dir():
        return
    if not is_empty(code, "code"):
        yield from _of_old_outputs(code)
        return
    folder = short(written)
    there = sorted({one.name for one in code.iterdir()} - ALWAYS - {*FILES})
    rules = IgnoreRules.of(code)
    lines = {rules.line(f"{name}/" if (code / name).is_dir() else name) for name in there}
    if not any(lines):
        yield f"nothing of code is sent: there is no file in {folder}"
        return
    whole = f"line {min(lines)} of {rules.file}" if len(lines) == 1 and min(lines) else rules.file
    yield f"nothing of code is sent: {whole} leaves out all that is in {folder}"


def of_script(command: object, code: Path, written: str) -> Iterator[str]:
    """That the script which the command begins with isn't in the code folder."""
    missing = missing_script(command, code) if isinstance(command, str) else None
    if missing:
        script, close = missing
        yield f"the command starts {script}, which isn't in the code folder `{short(written)}`. {close}".rstrip()


def _of_old_outputs(code: Path) -> Iterator[str]:
    old = code / DEFAULT_OUTPUTS
    if old.is_dir() and not old.is_symlink() and holds(code, DEFAULT_OUTPUTS):
        count = sum(holds(code, str(place.relative_to(code))) for place in old.rglob("*") if place.is_file())
        if count:
            yield (
                f"{DEFAULT_OUTPUTS}/ of the code has {counted(count, 'file')}, with which the job's outputs begin; a "
                f"line `{DEFAULT_OUTPUTS}/` in .amlignore leaves them out"
            )


def of_texts(inputs: Mapping[str, object], base: Path, code: Path | None) -> Iterator[str]:
    """That an input is a text, though it looks like a path of files that the ranks won't find."""
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

"""What was wrong with an image that couldn't be built: the tool's own error, and the line of the Dockerfile."""

from __future__ import annotations

import re

from drumbeat.launchers import dockerfile_reader
from drumbeat.launchers.dockerfile_reader import Instruction
from drumbeat.model.plan import ImageBuild

LONGEST = 400
_STEP = re.compile(r"^(?:\[[\d/]+\] )?STEP \d+(?:/\d+)?: (.+)$", re.MULTILINE)
_ERROR = re.compile(r"^(?:Error|ERROR): (.+)$", re.MULTILINE)
_RUN_FAILED = re.compile(r"while running runtime: exit status (\d+)|did not complete successfully: exit code: (\d+)")
_LINE = re.compile(r"(?:parse error (?:on )?line |Dockerfile:)(\d+)", re.IGNORECASE)
_DISK = re.compile(r"no space left on device|disk quota exceeded", re.IGNORECASE)
_NOISE = re.compile(r"^(?:#\d+ (?:[\d.]+ )?|-+$|-->.*|STEP .*|time=.*level=warning.*)")


def explain(build: ImageBuild, text: str, tool: str, said: str, code: int) -> str:
    """One sentence: `docker/Dockerfile, line 4 (RUN pip install nosuch): podman build failed: …`.

    text: the Dockerfile. said: what the tool has printed. code: its exit code, the negative of a signal's number.
    """
    where = f"{build.source}{_where(text, said)}"
    if full := _DISK.search(said):
        return f"{where}: {tool} build: {full[0]}"
    errors = _ERROR.findall(said)
    last = errors[-1] if errors else ""
    if match := _RUN_FAILED.search(last or said):
        own = _last_words(said)
        ended = f"its command ended with exit code {match[1] or match[2]}"
        return f"{where}: {ended}{f': {own}' if own else ''}"
    how = f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
    return f"{where}: {tool} build {f'says: {_short(last)}' if last else f'{how}: {_last_words(said)}'}"


def _where(text: str, said: str) -> str:
    """`, line 4 (RUN pip install nosuch)`; "" where it can't be told."""
    found = dockerfile_reader.instructions(text)
    if told := _LINE.findall(said):
        number = int(told[-1])
        named = next((one for one in reversed(found) if one.line <= number), None)
        return f", line {number}" + (f" ({_brief(named)})" if named and named.line == number else "")
    steps = _STEP.findall(said)
    if not steps:
        return ""
    one = _nth(found, steps[-1], steps.count(steps[-1]))
    return f", line {one.line} ({_brief(one)})" if one else f" ({_cut(steps[-1], 60)})"


def _nth(found: list[Instruction], step: str, count: int) -> Instruction | None:
    """The instruction that the tool has repeated, the so-manieth of those that read alike."""
    alike = [one for one in found if _squeezed(one.text) == _squeezed(step)]
    return alike[min(count, len(alike)) - 1] if alike else None


def _last_words(said: str) -> str:
    """The last line that the failing command itself has printed."""
    lines = [_NOISE.sub("", line).strip() for line in said.splitlines() if not _ERROR.match(line)]
    return _short(next((line for line in reversed(lines) if line), ""))


def _brief(one: Instruction) -> str:
    return _cut(one.text, 60)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _short(text: str) -> str:
    return _cut(" ".join(text.split()).rstrip("."), LONGEST)


def _squeezed(text: str) -> str:
    return re.sub(r"[\s\\]+", "", text).lower()

"""Explains why an image couldn't be built: the tool's own error, and the line of the Dockerfile."""

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


def explain(build: ImageBuild, text: str, tool: str, output: str, code: int) -> str:
    """One message: `docker/Dockerfile, line 4 (RUN pip install nosuch): podman build failed: …`.

    text: the Dockerfile. output: the tool's. code: its exit code, or the negative signal number.
    """
    where = f"{build.source}{_where(text, output)}"
    if full := _DISK.search(output):
        return f"{where}: {tool} build: {full[0]}"
    errors = _ERROR.findall(output)
    last = errors[-1] if errors else ""
    if match := _RUN_FAILED.search(last or output):
        own = _last_words(output)
        ended = f"its command ended with exit code {match[1] or match[2]}"
        return f"{where}: {ended}{f': {own}' if own else ''}"
    how = f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
    return f"{where}: {tool} build {f'says: {_short(last)}' if last else f'{how}: {_last_words(output)}'}"


def _where(text: str, output: str) -> str:
    """`, line 4 (RUN pip install nosuch)`; "" if it is unclear."""
    instructions = dockerfile_reader.instructions(text)
    if numbers := _LINE.findall(output):
        number = int(numbers[-1])
        named = next((one for one in reversed(instructions) if one.line <= number), None)
        return f", line {number}" + (f" ({_brief(named)})" if named and named.line == number else "")
    steps = _STEP.findall(output)
    if not steps:
        return ""
    one = _nth(instructions, steps[-1], steps.count(steps[-1]))
    return f", line {one.line} ({_brief(one)})" if one else f" ({_cut(steps[-1], 60)})"


def _nth(instructions: list[Instruction], step: str, count: int) -> Instruction | None:
    """The `count`-th instruction that reads like the step that the tool printed."""
    alike = [one for one in instructions if _squeezed(one.text) == _squeezed(step)]
    return alike[min(count, len(alike)) - 1] if alike else None


def _last_words(output: str) -> str:
    """The last line of the failing command's own output."""
    lines = [_NOISE.sub("", line).strip() for line in output.splitlines() if not _ERROR.match(line)]
    return _short(next((line for line in reversed(lines) if line), ""))


def _brief(one: Instruction) -> str:
    return _cut(one.text, 60)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _short(text: str) -> str:
    return _cut(" ".join(text.split()).rstrip("."), LONGEST)


def _squeezed(text: str) -> str:
    return re.sub(r"[\s\\]+", "", text).lower()

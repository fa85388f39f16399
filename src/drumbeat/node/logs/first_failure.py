"""One log into which a launcher has several processes of its own write: what the first of them to fail has said.

Its words may stand far above the end: the others follow with long tracebacks of what they lost by it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate, chain

from drumbeat.model.shared_logs import NOBODY, Speaker, Traceback, are_several, is_of_another, split, tracebacks

_GONE = re.compile(r"\[launch\.py:.* exits with return code = -(?!6$|15$)\d+$")
"""DeepSpeed's word on a process that a signal has ended; SIGABRT and SIGTERM are often the fault of another one."""
_BEGINS = re.compile(r"Traceback \(most recent call last\):|\[?[IWEF]\d{4} |\s*$")
"""A line that begins something else: a traceback, or a line of torch's log in C++."""
_TABLE = b"Root Cause (first observed failure)"
_OF_TORCHRUN = "ChildFailedError"
_FRAME = '  File "'
_KEPT_BYTES = 2048
_MAX_LINE_BYTES, _MAX_ERROR_BYTES = 500, 1000
"""How much of a line of a message or of code is kept, and of an error's own line: torch's on CUDA's memory has 600."""
_MORE_LINES = 4
"""How many lines of an error's message are kept after the first: NCCL's has four, the last of which says it."""


@dataclass(frozen=True)
class ProcessFailure:
    """What one process printed about its failure."""

    began: int
    """The byte at which its first line begins."""
    traceback: tuple[bytes, ...]
    """From the header to the line of the error."""
    error: str
    """That line, without what stands before it."""
    message: tuple[bytes, ...] = ()
    """The lines of the error's message below that."""


def first_failure(seen: bytes, end_at: int) -> str:
    """What the first of several processes to fail has said; "" = there are no several, or it begins beyond `end_at`."""
    first = min(_words(seen.split(b"\n")), key=lambda word: (is_of_another(word.error), word.began), default=None)
    if first is None or first.began >= end_at:
        return ""
    return b"\n".join(_shortened(first)).decode("utf-8", "replace")


def _shortened(word: ProcessFailure) -> list[bytes]:
    """Its lines without frames from the middle, and where that isn't enough, without the end of the message.

    The header, the innermost frame and the error's line stay: without them, neither the error nor its place is known.
    """
    *before, error = word.traceback
    header, frames = before[:1], _frames(before[1:])
    message = [_cut(line, _MAX_LINE_BYTES) for line in word.message]
    error = _cut(error, _MAX_ERROR_BYTES)
    while _size(lines := [*header, *chain.from_iterable(frames), error, *message]) > _KEPT_BYTES:
        if len(frames) > 1:  # The outer ones are of the job's own code, the inner ones tell what failed.
            del frames[(len(frames) - 1) // 2]
        elif message:
            del message[-1]
        else:
            break
    return lines


def _frames(lines: list[bytes]) -> list[list[bytes]]:
    """The lines of each frame of a traceback: its file, and the code there."""
    frames: list[list[bytes]] = []
    for line in lines:
        is_file = split(line.decode("utf-8", "replace"))[1].startswith(_FRAME)
        if is_file or not frames:
            frames.append([])
        frames[-1].append(line if is_file else _cut(line, _MAX_LINE_BYTES))
    return frames


def _cut(line: bytes, most: int) -> bytes:
    """The line without its middle where it is longer: the last words often say what the first ones announce."""
    if len(line) <= most:
        return line
    begin, end = (part.decode("utf-8", "ignore") for part in (line[: most * 2 // 3], line[-(most // 3) :]))
    return f"{begin}…{end}".encode()


def _size(lines: list[bytes]) -> int:
    return sum(len(line) + 1 for line in lines)


def _words(lines: list[bytes]) -> list[ProcessFailure]:
    """The last traceback of every process, or what DeepSpeed says of those that can say nothing."""
    messages = [split(line.decode("utf-8", "replace")) for line in lines]
    begins = list(accumulate((len(line) + 1 for line in lines), initial=0))
    gone = [number for number, (_, text) in enumerate(messages) if _GONE.search(text)]
    if gone:  # It is logged a moment later than the failures that follow from it.
        return [ProcessFailure(begins[number], (lines[number],), messages[number][1]) for number in gone]
    is_torchruns = any(_TABLE in line for line in lines)
    return [
        ProcessFailure(
            begins[one.lines[0]],
            tuple(lines[number] for number in one.lines),
            one.error,
            tuple(lines[number] for number in _message(one, messages)),
        )
        for one in _of_several(
            [one for one in tracebacks(messages, are_bare=True) if one.error], messages, is_torchruns=is_torchruns
        )
    ]


def _message(raised: Traceback, messages: list[tuple[Speaker, str]]) -> Iterable[int]:
    """The lines of an error's message after its first: those of the same process that stand right below it."""
    last = raised.lines[-1]
    for number in range(last + 1, min(last + 1 + _MORE_LINES, len(messages))):
        speaker, text = messages[number]
        if speaker != raised.speaker or raised.speaker == NOBODY or _BEGINS.match(text):
            return
        yield number


def _of_several(
    raised: list[Traceback], messages: list[tuple[Speaker, str]], *, is_torchruns: bool
) -> Iterable[Traceback]:
    """The last traceback of each process; none where all lines come from a single rank of drumbeat's own."""
    named = {speaker for speaker, _ in messages if speaker != NOBODY}
    if named and not are_several(named) and not is_torchruns:
        return ()
    last = {one.speaker: one for one in raised if one.speaker in named}
    if last:
        return last.values()
    # Before its process group is there, torch puts no rank before what it says.
    bare = [one for one in raised if _OF_TORCHRUN not in one.error]
    return bare if is_torchruns and len(bare) == 1 else ()

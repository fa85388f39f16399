"""Finds the message of the process that failed first, in a log into which a launcher has several processes write.

It may be far above the end: the other processes follow with long tracebacks of the consequences.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate, chain

from drumbeat.model.shared_logs import (
    NO_SPEAKER,
    Speaker,
    Traceback,
    blames_peer,
    has_several_processes,
    split,
    tracebacks,
)

_GONE = re.compile(r"\[launch\.py:.* exits with return code = -(?!6$|15$)\d+$")
"""DeepSpeed's message on a process that a signal ended; SIGABRT and SIGTERM are often caused by another process."""
_BEGINS = re.compile(r"Traceback \(most recent call last\):|\[?[IWEF]\d{4} |\s*$")
"""A line that begins another message: a traceback, or a line of torch's log in C++."""
_TABLE = b"Root Cause (first observed failure)"
_OF_TORCHRUN = "ChildFailedError"
_FRAME = '  File "'
_KEPT_BYTES = 2048
_MAX_LINE_BYTES, _MAX_ERROR_BYTES = 500, 1000
"""How much of a message's, an error's or a code's line is kept: torch's error on CUDA's memory has 600 bytes."""
_MORE_LINES = 4
"""How many lines of an error's message are kept after the first: NCCL's has four, and the last one matters."""


@dataclass(frozen=True)
class ProcessFailure:
    """The output of one process about its failure."""

    began: int
    """The offset of its first line."""
    traceback: tuple[bytes, ...]
    """The lines from the header to the error."""
    error: str
    """The error's line, without a prefix."""
    message: tuple[bytes, ...] = ()
    """The further lines of the error's message."""


def first_failure(seen: bytes, end_at: int) -> str:
    """The message of the first of several processes to fail; "" = there aren't several, or it
    begins beyond `end_at`.
    """
    first = min(_words(seen.split(b"\n")), key=lambda word: (blames_peer(word.error), word.began), default=None)
    if first is None or first.began >= end_at:
        return ""
    return b"\n".join(_shortened(first)).decode("utf-8", "replace")


def _shortened(word: ProcessFailure) -> list[bytes]:
    """The lines of a failure without frames from the middle and, if that isn't enough, without the end of the message.

    The header, the innermost frame and the error's line stay: without them, error and place would be unknown.
    """
    *before, error = word.traceback
    header, frames = before[:1], _frames(before[1:])
    message = [_cut(line, _MAX_LINE_BYTES) for line in word.message]
    error = _cut(error, _MAX_ERROR_BYTES)
    while _size(lines := [*header, *chain.from_iterable(frames), error, *message]) > _KEPT_BYTES:
        if len(frames) > 1:  # The outer frames are in the job's own code; the inner ones show what failed.
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
    """The line, without its middle if it is longer: the end often has what the start announces."""
    if len(line) <= most:
        return line
    begin, end = (part.decode("utf-8", "ignore") for part in (line[: most * 2 // 3], line[-(most // 3) :]))
    return f"{begin}…{end}".encode()


def _size(lines: list[bytes]) -> int:
    return sum(len(line) + 1 for line in lines)


def _words(lines: list[bytes]) -> list[ProcessFailure]:
    """The last traceback of every process, or DeepSpeed's message about those that can't write any."""
    messages = [split(line.decode("utf-8", "replace")) for line in lines]
    begins = list(accumulate((len(line) + 1 for line in lines), initial=0))
    gone = [number for number, (_, text) in enumerate(messages) if _GONE.search(text)]
    if gone:  # It is logged a moment after the failures that it causes.
        return [ProcessFailure(begins[number], (lines[number],), messages[number][1]) for number in gone]
    is_torchruns = any(_TABLE in line for line in lines)
    return [
        ProcessFailure(
            begins[one.lines[0]],
            tuple(lines[number] for number in one.lines),
            one.error,
            tuple(lines[number] for number in _message(one, messages)),
        )
        for one in _last_tracebacks(
            [one for one in tracebacks(messages, are_bare=True) if one.error], messages, is_torchruns=is_torchruns
        )
    ]


def _message(raised: Traceback, messages: list[tuple[Speaker, str]]) -> Iterable[int]:
    """The further lines of an error's message: those of the same process right below it."""
    last = raised.lines[-1]
    for number in range(last + 1, min(last + 1 + _MORE_LINES, len(messages))):
        speaker, text = messages[number]
        if speaker != raised.speaker or raised.speaker == NO_SPEAKER or _BEGINS.match(text):
            return
        yield number


def _last_tracebacks(
    raised: list[Traceback], messages: list[tuple[Speaker, str]], *, is_torchruns: bool
) -> Iterable[Traceback]:
    """The last traceback of each process; none if all lines come from one of drumbeat's own ranks."""
    named = {speaker for speaker, _ in messages if speaker != NO_SPEAKER}
    if named and not has_several_processes(named) and not is_torchruns:
        return ()
    last = {one.speaker: one for one in raised if one.speaker in named}
    if last:
        return last.values()
    # Before its process group exists, torch logs without a rank.
    bare = [one for one in raised if _OF_TORCHRUN not in one.error]
    return bare if is_torchruns and len(bare) == 1 else ()

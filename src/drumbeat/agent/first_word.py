"""One log into which a launcher has several processes of its own write: what the first of them to fail has said.

Its words may stand far above the end: the others follow with long tracebacks of what they lost by it.
"""

from __future__ import annotations

import re

from drumbeat.protocol.speakers import NOBODY, Speaker, are_several, is_of_another, split

_TRACEBACK = "Traceback (most recent call last):"
_GONE = re.compile(r"\[launch\.py:.* exits with return code = -(?!6$|15$)\d+$")
"""DeepSpeed's word on a process that a signal has ended; SIGABRT and SIGTERM are often the fault of another one."""
_TABLE = b"Root Cause (first observed failure)"
_OF_TORCHRUN = b"ChildFailedError"
_KEPT_BYTES = 2048

Word = tuple[int, int, bytes]
"""Where its first line begins, where its last one does, and the lines."""


def first_word(seen: bytes, end_at: int) -> str:
    """What the first of several processes to fail has said; "" = there are no several, or it begins beyond `end_at`."""
    words = sorted(_words(seen), key=lambda word: (_is_of_another(word), word))
    if not words or words[0][0] >= end_at:
        return ""
    lines = words[0][2].split(b"\n")
    while len(lines) > 2 and sum(map(len, lines)) > _KEPT_BYTES:
        del lines[1]  # The innermost frames tell most, and the header that there is a traceback.
    return b"\n".join(lines).decode("utf-8", "replace")


def _is_of_another(word: Word) -> bool:
    return is_of_another(split(word[2].rpartition(b"\n")[2].decode("utf-8", "replace"))[1])


def _words(seen: bytes) -> list[Word]:
    """The last traceback of every process, and what DeepSpeed says of those that can say nothing."""
    told: dict[Speaker, list[Word]] = {}
    open_ones: dict[Speaker, tuple[int, list[bytes]]] = {}
    gone: list[Word] = []
    at = 0
    for line in seen.split(b"\n"):
        speaker, said = split(line.decode("utf-8", "replace"))
        told.setdefault(speaker, [])
        if _GONE.search(said):
            gone.append((at, at, line))
        if said == _TRACEBACK:
            open_ones[speaker] = (at, [line])
        elif speaker in open_ones:
            began, lines = open_ones[speaker]
            lines.append(line)
            if said[:1].strip():
                told[speaker].append((began, at, b"\n".join(lines)))
                del open_ones[speaker]
        at += len(line) + 1
    return _of_several(told, is_torchruns=_TABLE in seen, gone=gone)


def _of_several(told: dict[Speaker, list[Word]], gone: list[Word], *, is_torchruns: bool) -> list[Word]:
    named = {speaker: words for speaker, words in told.items() if speaker != NOBODY}
    if named and not are_several(named) and not is_torchruns and not gone:
        return []
    if gone:
        return gone  # It is told a moment later than what the others lost by it.
    if any(named.values()):
        return [words[-1] for words in named.values() if words]
    # Before its process group is there, torch puts no rank before what it says.
    bare = [word for word in told.get(NOBODY, []) if _OF_TORCHRUN not in word[2].rpartition(b"\n")[2]]
    return bare if is_torchruns and len(bare) == 1 else []

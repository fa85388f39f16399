"""One log into which a launcher has several processes of its own write: what the first of them to fail has said.

Its words may stand far above the end: the others follow with long tracebacks of what they lost by it.
"""

from __future__ import annotations

import re

HOST = rb"(?:node-\d+|\d{1,3}(?:\.\d{1,3}){3}): "
"""What pdsh puts before each line."""
RANK = rb"(?:\[rank\d+\]: ?|\[\d+\]<std(?:out|err)>:)"
"""What torch.distributed puts there, and horovodrun."""
_LINE = re.compile(rb"^((?:" + HOST + rb")?" + RANK + rb"?)(.*)$")
_TRACEBACK = b"Traceback (most recent call last):"
_GONE = re.compile(rb"\[launch\.py:.* exits with return code = -(?!6$|15$)\d+$")
"""DeepSpeed's word on a process that a signal has ended; SIGABRT and SIGTERM are often the fault of another one."""
_TABLE = b"Root Cause (first observed failure)"
_OF_TORCHRUN = b"ChildFailedError"
_KEPT_BYTES = 2048

Word = tuple[int, int, bytes]
"""Where its first line begins, where its last one does, and the lines."""


def first_word(seen: bytes, end_at: int) -> str:
    """What the first of several processes to fail has said; "" = there are no several, or it ends beyond `end_at`."""
    words = sorted(_words(seen))
    if not words or words[0][1] >= end_at:
        return ""
    lines = words[0][2].split(b"\n")
    while len(lines) > 2 and sum(map(len, lines)) > _KEPT_BYTES:
        del lines[1]  # The innermost frames tell most, and the header that there is a traceback.
    return b"\n".join(lines).decode("utf-8", "replace")


def _words(seen: bytes) -> list[Word]:
    """The last traceback of every process, and what DeepSpeed says of those that can say nothing."""
    told: dict[bytes, list[Word]] = {}
    open_ones: dict[bytes, tuple[int, list[bytes]]] = {}
    gone: list[Word] = []
    at = 0
    for line in seen.split(b"\n"):
        source, said = _source_and_words(line)
        told.setdefault(source, [])
        if _GONE.search(said):
            gone.append((at, at, line))
        if said == _TRACEBACK:
            open_ones[source] = (at, [line])
        elif source in open_ones:
            began, lines = open_ones[source]
            lines.append(line)
            if said[:1].strip():
                told[source].append((began, at, b"\n".join(lines)))
                del open_ones[source]
        at += len(line) + 1
    return _of_several(told, is_torchruns=_TABLE in seen, gone=gone)


def _of_several(told: dict[bytes, list[Word]], gone: list[Word], *, is_torchruns: bool) -> list[Word]:
    named = {source: words for source, words in told.items() if source}
    is_one_rank = len(named) < 2 and all(source.startswith(b"[") for source in named)
    if named and is_one_rank and not is_torchruns and not gone:
        return []
    if gone:
        return gone  # It is told a moment later than what the others lost by it.
    if any(named.values()):
        return [words[-1] for words in named.values() if words]
    # Before its process group is there, torch puts no rank before what it says.
    bare = [word for word in told.get(b"", []) if _OF_TORCHRUN not in word[2].rpartition(b"\n")[2]]
    return bare if is_torchruns and len(bare) == 1 else []


def _source_and_words(line: bytes) -> tuple[bytes, bytes]:
    found = _LINE.match(line)
    return (found[1], found[2]) if found else (b"", line)

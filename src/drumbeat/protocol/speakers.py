"""Logs into which a launcher has several processes write: who says which line."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

_PREFIX = re.compile(
    r"^(?:(node-\d+|\d{1,3}(?:\.\d{1,3}){3}): )?(?:\[(?:rank(\d+)|default\d+)\]: ?|\[(\d+)\]<std(?:out|err)>:)?"
)
"""What may stand before a line: pdsh's host, of the names that a job's host file has (`launch.hosts.names`), and the
rank as torch.distributed or torchrun says it, or horovodrun."""
_HEADER = "Traceback (most recent call last):"


@dataclass(frozen=True)
class Speaker:
    """A process of a launcher's. host, rank: as they stand before its lines, "" = nothing stands there."""

    host: str = ""
    rank: str = ""

    @property
    def process(self) -> str:
        """What a person may call it."""
        return f"its launcher's rank {self.rank}" if self.rank else ""


NOBODY = Speaker()


def by_process(lines: Sequence[str]) -> tuple[list[str], Speaker]:
    """The lines without prefixes; where several processes speak, one after the other, and who is the last of them then.

    That is the one whose traceback began first. What nobody stands before comes first.
    """
    spoken: dict[Speaker, list[str]] = {}
    began: dict[Speaker, int] = {}
    told = [split(line) for line in lines]
    for number, (speaker, words) in enumerate(told):
        spoken.setdefault(speaker, []).append(words)
        if words.endswith(_HEADER):
            began.setdefault(speaker, number)
    if not are_several(spoken):
        return [words for _, words in told], NOBODY
    order = sorted(spoken, key=lambda one: (one != NOBODY, one in began, -began.get(one, 0)))
    return [words for speaker in order for words in spoken[speaker]], order[-1] if order[-1] in began else NOBODY


def are_several(speakers: Iterable[Speaker]) -> bool:
    """Whether they are a launcher's processes; a rank of drumbeat's own may have its number before its lines, too."""
    named = {speaker for speaker in speakers if speaker != NOBODY}
    return len(named) > 1 or any(speaker.host for speaker in named)


def unnamed(lines: Sequence[str]) -> list[str]:
    """Those that nobody stands before."""
    return [words for speaker, words in map(split, lines) if speaker == NOBODY]


def first_to_raise(lines: Sequence[str]) -> str:
    """The rank whose traceback began first, "" = none of a rank with a number."""
    told = map(split, lines)
    return next((speaker.rank for speaker, words in told if speaker.rank and words.endswith(_HEADER)), "")


def split(line: str) -> tuple[Speaker, str]:
    """Who says it, and what."""
    found = _PREFIX.match(line)
    return (Speaker(found[1] or "", found[2] or found[3] or ""), line[found.end() :]) if found else (NOBODY, line)

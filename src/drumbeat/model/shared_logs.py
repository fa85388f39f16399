"""Logs into which a launcher has several processes write: who says which line."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

_PREFIX = re.compile(
    r"^(?:(node-\d+|\d{1,3}(?:\.\d{1,3}){3}): )?(?:\[(?:rank(\d+)|default\d+)\]: ?|\[(\d+)\]<std(?:out|err)>:)?"
)
"""What may stand before a line: pdsh's host, of the names that a job's host file has (`launchers.host_file.names`), and
the rank as torch.distributed or torchrun says it, or horovodrun."""
_HEADER = "Traceback (most recent call last):"
_OF_ANOTHER = re.compile(
    r"\S*HorovodInternalError\b|\S*Error: (?:\[\S+\] )?.*(?:Connection (?:closed|reset) by peer|Broken pipe)"
)
"""What a process raises because another one of its launcher's has gone."""


@dataclass(frozen=True)
class Speaker:
    """A process of a launcher's. host, rank: as they stand before its lines, "" = nothing stands there."""

    host: str = ""
    rank: str = ""

    @property
    def process(self) -> str:
        """What a person may call it."""
        return f"its launcher's rank {self.rank}" if self.rank else ""


NO_SPEAKER = Speaker()


@dataclass(frozen=True)
class Traceback:
    """What a process has raised. lines: their numbers, from the header on. error: the last of them, "" = it is cut."""

    speaker: Speaker
    lines: tuple[int, ...]
    error: str


def by_process(lines: Sequence[str]) -> tuple[list[str], Speaker]:
    """The lines without prefixes; where several processes speak, one after the other, and who is the last of them then.

    That is the one that raised first. What nobody stands before comes first.
    """
    spoken: dict[Speaker, list[str]] = {}
    told = [split(line) for line in lines]
    for speaker, words in told:
        spoken.setdefault(speaker, []).append(words)
    if not has_several_processes(spoken):
        return [words for _, words in told], NO_SPEAKER
    raised = _in_order(told)
    silent = [speaker for speaker in spoken if speaker not in raised]
    order = [*sorted(silent, key=lambda one: one != NO_SPEAKER), *reversed(raised)]
    if NO_SPEAKER in raised:
        order.insert(0, order.pop(order.index(NO_SPEAKER)))
    return [words for speaker in order for words in spoken[speaker]], order[-1] if order[-1] in raised else NO_SPEAKER


def has_several_processes(speakers: Iterable[Speaker]) -> bool:
    """Whether they are a launcher's processes; a rank of drumbeat's own may have its number before its lines, too."""
    named = {speaker for speaker in speakers if speaker != NO_SPEAKER}
    return len(named) > 1 or any(speaker.host for speaker in named)


def lines_without_prefix(lines: Sequence[str]) -> list[str]:
    """Those that nobody stands before."""
    return [words for speaker, words in map(split, lines) if speaker == NO_SPEAKER]


def first_to_raise(lines: Sequence[str]) -> str:
    """The rank that raised first, "" = none of a rank with a number."""
    return next((speaker.rank for speaker in _in_order(list(map(split, lines))) if speaker.rank), "")


def blames_peer(line: str) -> bool:
    """Whether an error, without prefix, says that another process was gone: whoever raised it isn't the cause."""
    return _OF_ANOTHER.match(line) is not None


def tracebacks(told: Iterable[tuple[Speaker, str]], *, are_bare: bool = False) -> list[Traceback]:
    """Every process's, in the order in which they end; those that are cut, by another one or the end, have no error.

    told: by `split`. are_bare: nothing else stands in their headers; else these end a line of a logger's, say.
    """
    found: list[Traceback] = []
    open_ones: dict[Speaker, list[int]] = {}
    for number, (speaker, words) in enumerate(told):
        if words == _HEADER or (not are_bare and words.endswith(_HEADER)):
            if cut := open_ones.pop(speaker, None):
                found.append(Traceback(speaker, tuple(cut), ""))
            open_ones[speaker] = [number]
        elif speaker in open_ones:
            open_ones[speaker].append(number)
            if words[:1].strip():
                found.append(Traceback(speaker, tuple(open_ones.pop(speaker)), words))
    return found + [Traceback(speaker, tuple(numbers), "") for speaker, numbers in open_ones.items()]


def _in_order(told: Sequence[tuple[Speaker, str]]) -> list[Speaker]:
    """Those that have raised, by where their tracebacks begin; first those that don't lay it on another one."""
    began: dict[Speaker, int] = {}
    error: dict[Speaker, str] = {}
    for one in tracebacks(told):
        began[one.speaker] = min(one.lines[0], began.get(one.speaker, one.lines[0]))
        error[one.speaker] = one.error or error.get(one.speaker, "")
    return sorted(began, key=lambda one: (blames_peer(error[one]), began[one]))


def split(line: str) -> tuple[Speaker, str]:
    """Who says it, and what."""
    found = _PREFIX.match(line)
    return (Speaker(found[1] or "", found[2] or found[3] or ""), line[found.end() :]) if found else (NO_SPEAKER, line)

"""Separates the lines of a log that several processes of a launcher write."""

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
"""Errors that a process raises because another one of its launcher is gone."""


@dataclass(frozen=True)
class Speaker:
    """A process of a launcher. host, rank: the prefixes of its lines, "" = none."""

    host: str = ""
    rank: str = ""

    @property
    def process(self) -> str:
        """What a user may call it."""
        return f"its launcher's rank {self.rank}" if self.rank else ""


NO_SPEAKER = Speaker()


@dataclass(frozen=True)
class Traceback:
    """A traceback of a process. lines: their numbers, from the header on. error: the last one, "" = it is cut off."""

    speaker: Speaker
    lines: tuple[int, ...]
    error: str


def by_process(lines: Sequence[str]) -> tuple[list[str], Speaker]:
    """Returns the lines without prefixes, process by process where several write, and the last process.

    The last one is the one that raised first. Lines without a process prefix come first.
    """
    spoken: dict[Speaker, list[str]] = {}
    split_lines = [split(line) for line in lines]
    for speaker, words in split_lines:
        spoken.setdefault(speaker, []).append(words)
    if not has_several_processes(spoken):
        return [words for _, words in split_lines], NO_SPEAKER
    raised = _in_order(split_lines)
    silent = [speaker for speaker in spoken if speaker not in raised]
    order = [*sorted(silent, key=lambda one: one != NO_SPEAKER), *reversed(raised)]
    if NO_SPEAKER in raised:
        order.insert(0, order.pop(order.index(NO_SPEAKER)))
    return [words for speaker in order for words in spoken[speaker]], order[-1] if order[-1] in raised else NO_SPEAKER


def has_several_processes(speakers: Iterable[Speaker]) -> bool:
    """Whether they are several processes of a launcher; a single rank may prefix its lines with its number, too."""
    named = {speaker for speaker in speakers if speaker != NO_SPEAKER}
    return len(named) > 1 or any(speaker.host for speaker in named)


def lines_without_prefix(lines: Sequence[str]) -> list[str]:
    """Returns the lines without a process prefix."""
    return [words for speaker, words in map(split, lines) if speaker == NO_SPEAKER]


def first_to_raise(lines: Sequence[str]) -> str:
    """Returns the rank that raised first, "" = no rank with a number did."""
    return next((speaker.rank for speaker in _in_order(list(map(split, lines))) if speaker.rank), "")


def blames_peer(line: str) -> bool:
    """Whether an error, without prefix, says that another process was gone, so that its own process isn't the cause."""
    return _OF_ANOTHER.match(line) is not None


def tracebacks(split_lines: Iterable[tuple[Speaker, str]], *, are_bare: bool = False) -> list[Traceback]:
    """Returns the tracebacks of all processes, in the order in which they end; those that are cut off have no error.

    told: by `split`. are_bare: their headers are whole lines; else they may end a line of a logger, for example.
    """
    found_tracebacks: list[Traceback] = []
    open_ones: dict[Speaker, list[int]] = {}
    for number, (speaker, words) in enumerate(split_lines):
        if words == _HEADER or (not are_bare and words.endswith(_HEADER)):
            if cut := open_ones.pop(speaker, None):
                found_tracebacks.append(Traceback(speaker, tuple(cut), ""))
            open_ones[speaker] = [number]
        elif speaker in open_ones:
            open_ones[speaker].append(number)
            if words[:1].strip():
                found_tracebacks.append(Traceback(speaker, tuple(open_ones.pop(speaker)), words))
    return found_tracebacks + [Traceback(speaker, tuple(numbers), "") for speaker, numbers in open_ones.items()]


def _in_order(split_lines: Sequence[tuple[Speaker, str]]) -> list[Speaker]:
    """Returns the processes that raised, in the order of their tracebacks; those that blame a peer come last."""
    began: dict[Speaker, int] = {}
    error: dict[Speaker, str] = {}
    for one in tracebacks(split_lines):
        began[one.speaker] = min(one.lines[0], began.get(one.speaker, one.lines[0]))
        error[one.speaker] = one.error or error.get(one.speaker, "")
    return sorted(began, key=lambda one: (blames_peer(error[one]), began[one]))


def split(line: str) -> tuple[Speaker, str]:
    """Returns the process of a line, and the line without its prefix."""
    match = _PREFIX.match(line)
    return (Speaker(match[1] or "", match[2] or match[3] or ""), line[match.end() :]) if match else (NO_SPEAKER, line)

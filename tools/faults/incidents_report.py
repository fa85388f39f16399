"""The page's part on labelled incidents: what drumbeat made of them, and torchrun."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from drumbeat.model.states import Reason
from tools.faults.incidents import Finding, count_right
from tools.faults.torchrun_blame import Theirs

INCIDENTS = """
## Who was the cause

Labelled incidents, each a small script that goes wrong on 1 to 4 ranks, run as real jobs. The rules of blame were made
with the first set; the second one judges them, with other kinds, ranks and words. A verdict is right when rank, reason,
class of retry and the words that a person needs are all right.

Only the first run of a second set judges; later runs are of a set that has been seen. The set of 21 November 2026,
written and labelled by somebody who hadn't read the rules, had 34 of 40 right in its first run: rank 39, reason and
retry 40, sentence 34, advice 39. The rules were mended for five of its misses, and these incidents moved to the first
set. The sixth stays: a rank that fails first, ignores SIGTERM and takes a second to exit is seen only after the next
one. The set before it had 43 of 46 in its first run, and is part of the first set now.

| set | n | all right | rank | reason | retry | sentence | advice |
|---|---|---|---|---|---|---|---|
"""
BESIDE = """
### Beside torchrun

`torchrun --standalone` was given the same files, commands and numbers of ranks in the same run, once each. Its closing
table names a rank and its exit code; it has no words for reasons, classes of retry or what to do, so that only the rank
is compared. Right: one of the ranks of the label. Not played to it: {missing}.

| kind of incident | n | drumbeat: all right | drumbeat: rank right | played to torchrun | torchrun: rank right |
|---|---|---|---|---|---|
"""
EACH = """
### Every incident

What is wrong is in bold; of drumbeat's, the parts that are wrong are named. –: not played.

| incident | who it was | drumbeat | torchrun |
|---|---|---|---|
"""


@dataclass(frozen=True)
class Blamed:
    """ours: by the name of the set. theirs: by the name of the incident; what isn't there wasn't played."""

    ours: Mapping[str, Sequence[Finding]]
    theirs: Mapping[str, Theirs]


def say_incidents(blamed: Blamed) -> str:
    """The accuracies, every verdict that was wrong, and each incident with both verdicts."""
    rows: list[str] = []
    for name, found in blamed.ours.items():
        parts = [count_right(found, part) for part in ("rank", "reason", "retry", "sentence", "advice")]
        rows.append(f"| {name} | {len(found)} | {count_right(found)} | {' | '.join(map(str, parts))} |")
    wrong = [
        f"- {name}, *{each.incident.name}*: {', '.join(each.wrong)} wrong: {escape(each.said.sentence)}"
        for name, found in blamed.ours.items()
        for each in found
        if each.wrong
    ]
    ours = INCIDENTS + "\n".join(rows) + "\n" + ("\nWrong:\n\n" + "\n".join(wrong) + "\n" if wrong else "")
    return ours + say_beside(blamed) + say_each(blamed)


def say_beside(blamed: Blamed) -> str:
    """Both, by kind, by set and together."""
    found = [each for finds in blamed.ours.values() for each in finds]
    kinds = {str(kind): [each for each in found if each.incident.reason is kind] for kind in Reason}
    groups = {**kinds, **{f"set *{name}*": finds for name, finds in blamed.ours.items()}, "all": found}
    rows = [say_group(name, finds, blamed.theirs) for name, finds in groups.items() if finds]
    missing = sum(each.incident.name not in blamed.theirs for each in found)
    return BESIDE.format(missing=missing) + "\n".join(rows) + "\n"


def say_group(name: str, found: Sequence[Finding], theirs: Mapping[str, Theirs]) -> str:
    """One line of the comparison."""
    played = [theirs[each.incident.name] for each in found if each.incident.name in theirs]
    counts = (len(found), count_right(found), count_right(found, "rank"), len(played), sum(e.is_right for e in played))
    return f"| {name} | {' | '.join(map(str, counts))} |"


def say_each(blamed: Blamed) -> str:
    """The table of the incidents."""
    rows: list[str] = []
    for found in (each for finds in blamed.ours.values() for each in finds):
        incident, said = found.incident, found.said
        label = f"rank {' or '.join(map(str, incident.ranks))}: {incident.reason}"
        ours = f"{'no rank' if said.rank is None else f'rank {said.rank}'}: {said.reason or said.sentence}"
        ours = f"**{ours}** ({', '.join(found.wrong)})" if found.wrong else ours
        theirs = blamed.theirs.get(incident.name)
        word = "–" if theirs is None else theirs.word if theirs.is_right else f"**{theirs.word}**"
        rows.append("| " + " | ".join(escape(cell) for cell in (incident.name, label, ours, word)) + " |")
    return EACH + "\n".join(rows) + "\n"


def escape(text: str) -> str:
    """As the cell of a table; a folder's name that changes with every run isn't shown."""
    return text.replace("|", "\\|").replace("\n", " ").strip()

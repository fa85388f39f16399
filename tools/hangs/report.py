"""The page of the labelled set."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tools.hangs.scene import Finding

_HEAD = """\
# The labelled set of hangs

`make hangs` writes this page. Each case is a script of one or two ranks (`tools/hangs/`): a hang, or a silence that
is none, because a rank works or waits for something outside of the job. Each runs for real, under gloo on one machine,
and is looked at as [a silent job is](hangs.md). A verdict is right if it tells a hang from a silence that is none, and
names the rank that is the cause. Every second case was kept for judging: no table and no limit was changed after it
had run.

"""


def page(findings: Sequence[Finding]) -> str:
    """Returns the page."""
    return "".join([_HEAD, *_summary(findings), *_table("Hangs", findings, is_hang=True),
                    *_table("Silences that are no hang", findings, is_hang=False)])  # fmt: skip


def _summary(findings: Sequence[Finding]) -> Iterator[str]:
    right = sum(one.is_right for one in findings)
    alarms = sum(one.verdict.is_hang for one in findings if not one.case.is_hang)
    yield f"**{right} of {len(findings)} verdicts are right; {alarms} false alarms.**\n"


def _table(title: str, findings: Sequence[Finding], *, is_hang: bool) -> Iterator[str]:
    yield f"\n## {title}\n\n| case | verdict | |\n|---|---|---|\n"
    for number, one in enumerate(each for each in findings if each.case.is_hang == is_hang):
        kept = ", kept for judging" if number % 2 else ""
        said = one.verdict.sentence or f"({one.verdict.stillness})"
        yield f"| {one.case.name}{kept} | {said} | {'right' if one.is_right else '**wrong**'} |\n"

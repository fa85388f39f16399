"""The page of the labelled set."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from tools.hangs import on_gpu
from tools.hangs.case import Case, judged
from tools.hangs.hung import HANGS
from tools.hangs.records import Record
from tools.hangs.working import WORKING

_HEAD = """\
# The labelled set of hangs

`make hangs` writes this page. Each case is a script of one or two ranks (`tools/hangs/`): a hang, or a silence that
is none, because a rank works or waits for something outside of the job. Each runs for real, under gloo on one machine,
and is looked at as [a silent job is](hangs.md). A verdict is right if it tells a hang from a silence that is none, and
names the rank that is the cause. Every second case is kept for judging: no table and no limit was changed because of
its verdict.

When the judged half first ran, 27 of its 30 verdicts were right, and none was a false alarm. One (a rank waits for a
key of the store) showed a defect: the case was moved to the other half after the change, and two cases of its kind
were added. Two had not begun to hang when they were looked at, or had a mistake in their script. In the other half,
one false alarm (one child process after the other) and three hangs that weren't recognized led to changes.

The judged half ran again on 26 November 2026, on a machine with a load of 30: 29 of 30 verdicts were right, and none
was a false alarm. In one case the ranks still imported modules when they were looked at. The tool has waited longer for
a hang to begin since then, and has played this case again.

"""

_GPU_HEAD = """\
# The labelled set of hangs on a GPU

`python -m tools.hangs --gpu` writes this page on a machine with an NVIDIA GPU. Each case is a script of one or two
ranks (`tools/hangs/on_gpu.py`), which share the GPU and meet by NCCL over a socket, or by gloo. Each is looked at as
[a silent job is](hangs.md), and a verdict is right as in [the set for CPUs](hang-set.md).

When the set first ran, 19 of its 28 verdicts were right, and 8 were false alarms: a rank that computes on its GPU
stands in one line, as one that hangs does. Since then what the driver says of the GPU's memory counts. In one of the 8,
a loader slept for each sample, which no look can tell from a hang when it lasts longer than `hang_after_s`, 3 s here;
now it computes.

In the run below, hangs ran six at a time, and the others three at a time beside trainings. What the driver said was the
value of the whole GPU: 0 % in hangs, and in the others 13 to 20 %, of all that ran there together. So the page doesn't
show what it says of a light job that has the GPU for itself. Had it been 0 % in the 13 cases without a hang, 7 would be
told as `may hang` after twice `hang_after_s`; none would be restarted. `sleep beside the gradient exchange of NCCL`,
played once more beside trainings on the same GPU, wasn't told; its facts are those of the first run, which didn't ask
the driver. Since this run a rank's own use of the memory counts where the driver says it, and a rank that is blocked is
told beside busy GPUs, too: neither was seen on a GPU.

Machine: {machine}.

"""


def page(kept: Mapping[str, Record]) -> str:
    """Returns the page."""
    parts = [_HEAD, *_summary([*kept.values()])]
    parts += _table("Hangs", HANGS, kept, judged(HANGS))
    parts += _table("Silences that are no hang", WORKING, kept, judged(WORKING))
    return "".join(parts)


def gpu_page(kept: Mapping[str, Record], machine: str) -> str:
    """Returns the page of the cases on a GPU. machine: its GPU and what runs there."""
    parts = [_GPU_HEAD.format(machine=machine), *_summary([*kept.values()])]
    parts += _table("Hangs", on_gpu.HANGS, kept, frozenset())
    parts += _table("Silences that are no hang", on_gpu.WORKING, kept, frozenset())
    return "".join(parts)


def _summary(kept: Sequence[Record]) -> Iterator[str]:
    right = sum(one["is_right"] for one in kept)
    alarms = sum(one["verdict"]["stillness"] == "hung" for one in kept if not one["is_hang"])
    yield f"**{right} of {len(kept)} verdicts are right; {alarms} false alarms.**\n"


def _table(title: str, cases: Sequence[Case], kept: Mapping[str, Record], names: Collection[str]) -> Iterator[str]:
    yield f"\n## {title}\n\n| case | verdict | |\n|---|---|---|\n"
    for case in cases:
        if (record := kept.get(case.name)) is not None:
            half = ", kept for judging" if case.name in names else ""
            said = record["verdict"]["sentence"] or f"({record['verdict']['stillness']})"
            yield f"| {case.name}{half} | {said} | {'right' if record['is_right'] else '**wrong**'} |\n"

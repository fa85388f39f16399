"""Why a gang is gone whose Slurm job is over, in the words of losses. Pure.

What each state of Slurm's means is the table in `job_states.py`.
"""

from __future__ import annotations

import re

from drumbeat.core.lifecycle.events import Loss
from drumbeat.engines.slurm import job_states
from drumbeat.engines.slurm.client import Ended

SIGNALLED = 143
"""How a node ends that was told to stop."""
_WARNS_EARLY_S = 60
"""Slurm's `--signal` comes up to so much earlier than it was asked for (sbatch(1))."""

_NODE_TROUBLE = re.compile(
    r"srun: error: (?:Node failure on \S+|Task launch for \S+ failed on node \S+: "
    r"(?:Communication connection failure|Socket timed out|Connection|Unable to|Zero Bytes|No route).*)"
)
"""What srun says when a node didn't answer it, before slurmctld noticed; the job has FAILED then."""
_ENDED_TASKS = re.compile(r"^srun: error: (\S+): tasks? ([\d,-]+): Exited with exit code (\d+)$", re.MULTILINE)
"""What srun says of tasks that ended while the others go on; a task's number is its node's."""


_ERROR = "srun: error: "


def judged(ended: Ended | None, grace_s: float, output: str) -> tuple[Loss, str]:
    """Why a gang is gone whose Slurm job is over, and a sentence without its subject. output: the job's own."""
    if ended is None:
        return Loss.LOST, "isn't known to Slurm any more"
    word = job_states.meaning(ended.word)
    is_by_signal = ended.word in ("FAILED", "COMPLETED") and ended.code == SIGNALLED
    if ended.was_preempted and (is_by_signal or ended.word == "CANCELLED"):
        return Loss.PREEMPTED, job_states.JOB["PREEMPTED"].what
    if is_by_signal and not _is_at_limit(ended, grace_s):
        return Loss.LOST, "was told to stop (SIGTERM) by Slurm or on its nodes"
    if is_by_signal or ended.word == "TIMEOUT":
        limit = f" of {_shown(ended.limit_s)}" if ended.limit_s else ""
        what = f"reached Slurm's time limit{limit}. Raise `time_limit` of the compute, or make the job shorter"
        return Loss.TIMED_OUT, what
    trouble = _NODE_TROUBLE.search(output) if word.loss is Loss.FAILED else None
    if trouble:
        return Loss.LOST, f"lost a node: {trouble[0].removeprefix('srun: error: ')}"
    last = _last_words(output) if word.loss is Loss.FAILED else ""
    return word.loss, f"{word.what or f'is over in Slurm: {ended.word}'}{last}"


def ended_nodes(output: str) -> dict[int, str]:
    """The nodes of a job that runs whose tasks have ended by themselves, with a sentence each. output: the job's own.

    A node that was told to stop says nothing here: how the whole job ends says why.
    """
    gone: dict[int, str] = {}
    for match in _ENDED_TASKS.finditer(output):
        machine, tasks, code = match.groups()
        if int(code) not in (0, SIGNALLED):
            said = f"its Slurm task on {machine} ended with exit code {code}"
            before = output[: match.start()]
            last = _last_words(before) or _last_words(output)  # What a task said may come after what srun says.
            gone |= {node: said + (_last_words(_own_lines(output, node)) or last) for node in _numbers(tasks)}
    return gone


def _numbers(listed: str) -> list[int]:
    """The numbers in `0,2-3`."""
    ranges = [part.partition("-")[::2] for part in listed.split(",") if part]
    return [number for first, last in ranges for number in range(int(first), int(last or first) + 1)]


def _own_lines(output: str, node: int) -> str:
    """What the node itself said of its end, as `slurm_step` says it."""
    return "\n".join(line for line in output.splitlines() if line.startswith(f"drumbeat: node {node}: "))


def preemption_notice(number: str, at: str, grace_s: float) -> str:
    """That Slurm is about to take the nodes of a running job, "" = it isn't. at: the time that it says."""
    if not at:
        return ""
    within = f" after a grace time of {grace_s:g} s" if grace_s else ""
    source = f"Slurm job {number}, PreemptTime {at.rpartition('T')[2]}"
    return f"Slurm will take the nodes away for another job{within} ({source})"


def _last_words(output: str) -> str:
    """The last line that isn't one of Slurm's own; where there is none, the last of its errors."""
    lines = [line.strip() for line in _ENDED_TASKS.sub("", output).splitlines() if line.strip()]
    left = [line for line in lines if not line.startswith("srun:")] or [line for line in lines if _ERROR in line]
    own = [line for line in left if not line.startswith("slurmstepd")] or left
    return f"; the last it said: {own[-1][:400]}" if own else ""


def _is_at_limit(ended: Ended, grace_s: float) -> bool:
    """Whether the ranks were told to stop because the limit was near, as `--signal` asks for."""
    if ended.ran_s is None or ended.limit_s is None:
        return False
    return ended.ran_s >= ended.limit_s - grace_s - _WARNS_EARLY_S


def _shown(seconds: int | None) -> str:
    hours, rest = divmod(seconds or 0, 3600)
    return f"{hours:02}:{rest // 60:02}:{rest % 60:02}"

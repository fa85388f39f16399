"""The loss of a gang whose Slurm job is over. Pure.

The table in `job_states.py` has the meaning of each of Slurm's states.
"""

from __future__ import annotations

import re

from drumbeat.core.lifecycle.events import Loss
from drumbeat.engines.slurm import job_states
from drumbeat.engines.slurm.client import Ended

SIGNALLED = 143
"""The exit code of a node that was told to stop."""
_WARNS_EARLY_S = 60
"""Slurm's `--signal` may come earlier than requested by up to this time (sbatch(1))."""

_NODE_TROUBLE = re.compile(
    r"srun: error: (?:Node failure on \S+|Task launch for \S+ failed on node \S+: "
    r"(?:Communication connection failure|Socket timed out|Connection|Unable to|Zero Bytes|No route).*)"
)
"""srun's message when a node didn't answer, before slurmctld noticed; the job is FAILED then."""
_ENDED_TASKS = re.compile(r"^srun: error: (\S+): tasks? ([\d,-]+): Exited with exit code (\d+)$", re.MULTILINE)
"""srun's message for tasks that ended while the others continue; a task's number is its node's."""


_ERROR = "srun: error: "


def judged(ended: Ended | None, grace_s: float, output: str) -> tuple[Loss, str]:
    """The loss of a gang whose Slurm job is over, and a message without its subject. output: the job's own."""
    if ended is None:
        return Loss.LOST, "is no longer known to Slurm"
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
    """The nodes of a running job whose tasks have ended by themselves, with a message each. output: the job's own.

    A node that was told to stop isn't listed: the end of the whole job explains it.
    """
    gone: dict[int, str] = {}
    for match in _ENDED_TASKS.finditer(output):
        machine, tasks, code = match.groups()
        if int(code) not in (0, SIGNALLED):
            message = f"its Slurm task on {machine} ended with exit code {code}"
            before = output[: match.start()]
            last = _last_words(before) or _last_words(output)  # A task's output may come after srun's message.
            gone |= {node: message + (_last_words(_own_lines(output, node)) or last) for node in _numbers(tasks)}
    return gone


def _numbers(listed: str) -> list[int]:
    """The numbers in `0,2-3`."""
    ranges = [part.partition("-")[::2] for part in listed.split(",") if part]
    return [number for first, last in ranges for number in range(int(first), int(last or first) + 1)]


def _own_lines(output: str, node: int) -> str:
    """The node's own message about its end, as `slurm_step` writes it."""
    return "\n".join(line for line in output.splitlines() if line.startswith(f"drumbeat: node {node}: "))


def preemption_notice(number: str, at: str, grace_s: float) -> str:
    """The notice that Slurm is about to take the nodes of a running job, "" = it isn't. at: the
    time that it reports.
    """
    if not at:
        return ""
    within = f" after a grace time of {grace_s:g} s" if grace_s else ""
    source = f"Slurm job {number}, PreemptTime {at.rpartition('T')[2]}"
    return f"Slurm will take the nodes away for another job{within} ({source})"


def _last_words(output: str) -> str:
    """The last line that isn't one of Slurm's own, else the last of its errors."""
    lines = [line.strip() for line in _ENDED_TASKS.sub("", output).splitlines() if line.strip()]
    left = [line for line in lines if not line.startswith("srun:")] or [line for line in lines if _ERROR in line]
    own = [line for line in left if not line.startswith("slurmstepd")] or left
    return f"; its last output: {own[-1][:400]}" if own else ""


def _is_at_limit(ended: Ended, grace_s: float) -> bool:
    """Whether the ranks were told to stop because the limit was near, as `--signal` asks for."""
    if ended.ran_s is None or ended.limit_s is None:
        return False
    return ended.ran_s >= ended.limit_s - grace_s - _WARNS_EARLY_S


def _shown(seconds: int | None) -> str:
    hours, rest = divmod(seconds or 0, 3600)
    return f"{hours:02}:{rest // 60:02}:{rest % 60:02}"

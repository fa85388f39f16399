"""What a notice says of the end of a job: a title, and the text below it. Pure."""

from __future__ import annotations

from datetime import timedelta

from drumbeat.core.lifecycle.job import Job
from drumbeat.model.plurals import counted

MAX_SENTENCE = 2000


def title(job: Job) -> str:
    """One line: the job, and how it ended."""
    name = job.name if job.display_name in ("", job.name) else f"{job.display_name} ({job.name})"
    return _one_line(f"drumbeat: job {name} {job.state}", 200)


def lines(job: Job) -> list[str]:
    """Why it ended so, how long it took, and what to look at next."""
    sentences = [_one_line(job.sentence, MAX_SENTENCE)]
    if job.verdict and job.verdict.advice:
        sentences.append(job.verdict.advice)
    size = f"{counted(job.plan.nodes, 'node')}, {counted(job.plan.world_size, 'rank')}" if job.plan.nodes else job.kind
    sentences.append(f"Experiment {_one_line(job.plan.experiment, 100)}, on {job.plan.compute}: {size}.")
    if job.ended_at:
        sentences.append(f"Submitted {job.submitted_at:%Y-%m-%d %H:%M} UTC, ended after {_length(job)}.")
    return [*sentences, f"See it: drumbeat show {job.name}"]


def _length(job: Job) -> str:
    length = (job.ended_at or job.submitted_at) - job.submitted_at
    return str(timedelta(seconds=max(int(length.total_seconds()), 0)))


def _one_line(text: str, most: int) -> str:
    """Text of others on one line, without control characters: it goes into headers and chats."""
    clean = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return clean if len(clean) <= most else f"{clean[: most - 1]}…"

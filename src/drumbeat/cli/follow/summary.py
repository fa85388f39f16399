"""The last lines of `run`: how the job ended, and what to type next."""

from __future__ import annotations

from shlex import quote as quoted

from drumbeat.cli.terminal.formatting import format_duration, format_result
from drumbeat.cli.terminal.styles import Ink
from drumbeat.cli.terminal.untrusted_text import make_safe, safe_lines
from drumbeat.model.api.jobs import JobView, VerdictView
from drumbeat.model.states import JobKind, State

TAIL_LINES = 20


def format_closing(job: JobView, ink: Ink) -> list[str]:
    """Returns the closing block."""
    took = format_duration((job.ended_at or job.submitted_at) - job.submitted_at)
    if job.state == State.COMPLETED:
        ending = [ink.paint(f"completed in {took}", "good"), *_result(job)]
    elif job.state == State.CANCELED:
        ending = [ink.paint(f"canceled after {took}", "warn")]
    else:
        ending = _failure(job, took, ink)
    return [*ending, *_outputs(job, ink), *_commands(job, ink)]


def _result(job: JobView) -> list[str]:
    """Returns the result: the last value of its metric, or the best trial."""
    result = format_result(job)
    step = f" at step {job.primary.step:,}" if job.primary else ""
    return [make_safe(f"  result   {result}{step}")] if result else []


def _outputs(job: JobView, ink: Ink) -> list[str]:
    """Returns the outputs that aren't stored in their destinations; their files are in the job's folder."""
    lines = [ink.paint(f"  {make_safe(one.notice)}", "bad") for one in job.outputs if one.notice]
    if any(one.place == "under_way" for one in job.outputs):
        lines.append(ink.paint(f"  → how it continues: drumbeat show {job.name}", "warn"))
        lines.append(ink.paint(f"  → to give it up: drumbeat cancel {job.name} --discard", "warn"))
    return lines


def _failure(job: JobView, took: str, ink: Ink) -> list[str]:
    verdict = job.verdict or VerdictView(job.reason, job.sentence)
    lines = [f"{ink.paint(f'failed after {took}:', 'bad')} {make_safe(verdict.sentence)}"]
    if verdict.rank is not None:
        lines.append(f"  cause    {_culprit(verdict)}")
    if verdict.aftermath:
        lines.append(f"  others   {make_safe(verdict.aftermath)}")
    tail = safe_lines(verdict.tail, last=TAIL_LINES)
    if tail:
        lines.append("  the end of its log:")
        lines += [f"  {ink.paint('│', 'bad')} {line}" for line in tail]
    if verdict.advice:
        lines.append(ink.paint(f"  → {make_safe(verdict.advice)}", "warn"))
    return lines


def _culprit(verdict: VerdictView) -> str:
    place = f"rank {verdict.rank}" + (f" on node {verdict.node}" if verdict.node is not None else "")
    return place + (f", exit code {verdict.code}" if verdict.code is not None else "")


def _commands(job: JobView, ink: Ink) -> list[str]:
    return [f"  {title:<8} {ink.paint(command, 'accent')}" for title, command in _next_commands(job)]


def _next_commands(job: JobView) -> list[tuple[str, str]]:
    if job.type == JobKind.SWEEP:
        return [
            ("trials", f"drumbeat sweep show {job.name}"),
            ("best", f"drumbeat sweep best {job.name}"),
            ("files", f"drumbeat download {job.name}"),
        ]
    if job.type == JobKind.PIPELINE:
        more = [("steps", f"drumbeat show {job.name}"), ("files", f"drumbeat download {job.name}")]
        return [("logs", f"drumbeat logs {job.name}"), *more]
    rank = job.verdict.rank if job.verdict and job.state == State.FAILED else None
    logs = f"drumbeat logs {job.name}" + (f" --rank {rank}" if rank is not None else "")
    curves = [("curves", f"drumbeat metrics {job.name} {quoted(job.primary.name)}")] if job.primary else []
    files, more = ("files", f"drumbeat download {job.name}"), ("more", f"drumbeat show {job.name}")
    return [("logs", logs), *curves, files, more]


def exit_code_for(job: JobView) -> int:
    """What `run` and `wait` end with: the job's own code; 1 where a job that didn't complete has none, and where an
    output isn't where it was to go: what comes next in a script would miss it.
    """
    if job.exit_code is not None and job.exit_code != 0:
        return job.exit_code
    return 0 if job.state == State.COMPLETED and not any(one.notice for one in job.outputs) else 1

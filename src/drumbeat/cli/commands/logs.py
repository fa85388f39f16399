"""`logs`: what the ranks of a job have printed, whole or as it comes."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from drumbeat.cli.commands.jobs import Job
from drumbeat.cli.terminal.connect import connect
from drumbeat.protocol.states import JobKind

if TYPE_CHECKING:
    from drumbeat.cli.follow.background_reader import Batches
    from drumbeat.cli.follow.chosen_logs import Chosen
    from drumbeat.cli.follow.log_lines import Passing, Whole
    from drumbeat.cli.follow.step_logs import StepLogs
    from drumbeat.protocol.api.jobs import Event, JobView, LogPiece


RAW = "Print lines as they were written, without prefix or escaping; with --rank, pass the text through unchanged."


def logs(
    job: Job,
    *,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Continue until the job ends.")] = False,
    rank: Annotated[int | None, typer.Option("--rank", "-r", metavar="N", min=0, help="Show only this rank.")] = None,
    node: Annotated[
        int | None, typer.Option("--node", metavar="N", min=0, help="Show only the ranks of this node.")
    ] = None,
    round_: Annotated[str | None, typer.Option("--round", metavar="A.R", help="Show only attempt A, round R.")] = None,
    collapse: Annotated[
        bool, typer.Option("--collapse", "-c", help="Merge identical lines of several ranks into one.")
    ] = False,
    raw: Annotated[bool, typer.Option("--raw", help=RAW)] = False,
) -> None:
    """Print the output of a job's ranks, each line prefixed with `node:rank`, and the log of preparing its nodes.

    Of a pipeline, the output of all steps is printed, each line prefixed with the step's name.

    Shows all rounds in the order in which their lines arrived; a line marks the start of a new round. The logs of Ray's
    head and nodes are shown only with --rank or --node.
    """
    from drumbeat.cli.follow.chosen_logs import Chosen, check_places
    from drumbeat.cli.follow.log_lines import LogLook, LogView, Passing, Whole, prefix_width, weight_of
    from drumbeat.cli.terminal.job_names import find_job
    from drumbeat.cli.terminal.styles import ink_for

    number = parse_round(round_)
    client = connect()
    job_view = find_job(client, job)
    chosen = Chosen(rank, node, number, job_view)
    if job_view.type == JobKind.PIPELINE:
        from drumbeat.cli.follow.step_logs import StepLogs

        look = LogLook(ink_for(sys.stdout), raw, collapse)
        # What is asked again and again mustn't start a server that a person has stopped.
        steps = StepLogs(connect(autostart=False), job_view.name, look)
        _of_steps(steps, job_view, chosen, is_following=follow)
        return
    check_places(job_view, chosen)
    width = prefix_width(job_view.node_count, job_view.world_size)
    is_one = raw and not collapse and (rank is not None or job_view.world_size == 1)
    away = threading.Event()
    view = Passing() if is_one else Whole(LogView(LogLook(ink_for(sys.stdout), raw, collapse, width), away))
    if follow:
        from drumbeat.cli.follow.background_reader import Batches

        _follow(Batches(client.stream(job_view.name, away=away), weigh=weight_of), chosen, view)
    else:
        _print(client.logs(job_view.name), chosen, view)
        Told().see(client.get(job_view.name))


def _of_steps(steps: StepLogs, pipeline: JobView, chosen: Chosen, *, is_following: bool) -> None:
    """Prints the logs of a pipeline's steps, each line prefixed with the step's name."""
    from drumbeat.cli.follow.chosen_logs import check_steps

    told: dict[str, Told] = {}

    def see(title: str, job: JobView) -> None:
        told.setdefault(title, Told(title)).see(job)

    # A step that begins later may have what is asked for.
    is_checked_late = is_following and not pipeline.has_ended
    if chosen.sentence and not is_checked_late:
        check_steps(pipeline.name, list(steps.jobs().values()), chosen)
    has = replace(chosen, job=None).has
    for text in steps.follow(has, see) if is_following else steps.all(has):
        _write(text)
    if chosen.sentence and is_checked_late:
        check_steps(pipeline.name, list(steps.jobs().values()), chosen)
    if not is_following:
        for title, job in steps.jobs().items():
            see(title, job)


def parse_round(written: str | None) -> tuple[int, int] | None:
    """Attempt and round in `A.R`."""
    if written is None:
        return None
    attempt, _, number = written.partition(".")
    if not (attempt.isdecimal() and number.isdecimal()):
        raise typer.BadParameter(f"{written!r} isn't an attempt and a round, as 1.2", param_hint="--round")
    return int(attempt), int(number)


def _print(pieces: Iterable[LogPiece], chosen: Chosen, view: Passing | Whole) -> None:
    for piece in pieces:
        if chosen.has(piece):
            _write(view.take(piece, 0.0))
    _write(view.end())


class Told:
    """Tells on standard error, once, what keeps the logs from being stored, and when nothing does any more.

    Of a job that has ended: what becomes of its outputs. title: of a step, which its lines begin with.
    """

    def __init__(self, title: str = "") -> None:
        self._notice = self._outputs = ""
        self._title = title

    def see(self, job: JobView) -> None:
        """The job as it is now."""
        from drumbeat.cli.follow.event_printer import notice_lines, of_step
        from drumbeat.cli.terminal.styles import ink_for
        from drumbeat.cli.terminal.untrusted_text import make_safe

        for line in notice_lines(self._notice, job.notice, ink_for(sys.stderr), self._title):
            print(line, file=sys.stderr, flush=True)
        self._notice = job.notice
        outputs = "; ".join(one.notice for one in job.outputs if one.notice)
        if outputs not in ("", self._outputs):
            self._outputs = outputs
            line = f"── {make_safe(of_step(self._title, outputs))} ──"
            print(ink_for(sys.stderr).paint(line, "warn"), file=sys.stderr, flush=True)


def _follow(batches: Batches[Event], chosen: Chosen, view: Passing | Whole) -> None:
    from drumbeat.protocol.api.jobs import JobView, LogPiece

    told = Told()
    try:
        for batch in batches:
            now = time.monotonic()
            text = ""
            for piece in batch:
                if isinstance(piece, LogPiece) and chosen.has(piece):
                    text += view.take(piece, now)
                elif isinstance(piece, JobView):
                    told.see(piece)
            _write(text + view.due(now))
    finally:
        _write(view.end())


def _write(text: str) -> None:
    if text:
        sys.stdout.write(text)
        sys.stdout.flush()

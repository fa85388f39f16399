"""`logs`: prints the logs of a job's ranks, stored or as they arrive."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated

import typer

from drumbeat.cli.terminal.connect import connect
from drumbeat.cli.terminal.help import Job
from drumbeat.cli.terminal.job_names import find_job
from drumbeat.cli.terminal.styles import ink_for
from drumbeat.cli.terminal.untrusted_text import make_safe
from drumbeat.model.errors import NotFoundError
from drumbeat.model.states import JobKind

if TYPE_CHECKING:
    from drumbeat.cli.follow.background_reader import Batches
    from drumbeat.cli.follow.log_lines import LineText, RawText
    from drumbeat.cli.follow.step_logs import StepLogs
    from drumbeat.model.api.jobs import Event, JobView, LogPiece


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
    from drumbeat.cli.follow.log_lines import LineText, LogLook, LogView, RawText, event_weight, prefix_width

    number = parse_round(round_)
    client = connect()
    job_view = find_job(client, job)
    chosen = LogFilter(rank, node, number, job_view)
    if job_view.type == JobKind.PIPELINE:
        from drumbeat.cli.follow.step_logs import StepLogs

        look = LogLook(ink_for(sys.stdout), raw, collapse)
        # What is asked again and again mustn't start a server that a user has stopped.
        steps = StepLogs(connect(autostart=False), job_view.name, look)
        _print_steps(steps, job_view, chosen, is_following=follow)
        return
    check_places(job_view, chosen)
    width = prefix_width(job_view.node_count, job_view.world_size)
    is_one = raw and not collapse and (rank is not None or job_view.world_size == 1)
    away = threading.Event()
    view = RawText() if is_one else LineText(LogView(LogLook(ink_for(sys.stdout), raw, collapse, width), away))
    if follow:
        from drumbeat.cli.follow.background_reader import Batches

        _follow(Batches(client.stream(job_view.name, away=away), weigh=event_weight), chosen, view)
    else:
        _print(client.logs(job_view.name), chosen, view)
        NoticePrinter().see(client.get(job_view.name))


def _print_steps(steps: StepLogs, pipeline: JobView, chosen: LogFilter, *, is_following: bool) -> None:
    """Prints the logs of a pipeline's steps, each line prefixed with the step's name."""
    printers: dict[str, NoticePrinter] = {}

    def see(title: str, job: JobView) -> None:
        printers.setdefault(title, NoticePrinter(title)).see(job)

    # A step that begins later may match.
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
    """Returns attempt and round of `A.R`."""
    if written is None:
        return None
    attempt, _, number = written.partition(".")
    if not (attempt.isdecimal() and number.isdecimal()):
        raise typer.BadParameter(f"{written!r} isn't an attempt and a round, as 1.2", param_hint="--round")
    return int(attempt), int(number)


def _print(pieces: Iterable[LogPiece], chosen: LogFilter, view: RawText | LineText) -> None:
    for piece in pieces:
        if chosen.has(piece):
            _write(view.take(piece, 0.0))
    _write(view.end())


class NoticePrinter:
    """Prints on standard error, once, what keeps the logs from being stored, and when that is over.

    For a job that has ended, it prints the progress of its outputs. title: of a step, which its lines begin with.
    """

    def __init__(self, title: str = "") -> None:
        self._notice = self._outputs = ""
        self._title = title

    def see(self, job: JobView) -> None:
        """Takes the job as it is now."""
        from drumbeat.cli.follow.event_printer import notice_lines, of_step

        for line in notice_lines(self._notice, job.notice, ink_for(sys.stderr), self._title):
            print(line, file=sys.stderr, flush=True)
        self._notice = job.notice
        outputs = "; ".join(one.notice for one in job.outputs if one.notice)
        if outputs not in ("", self._outputs):
            self._outputs = outputs
            line = f"── {make_safe(of_step(self._title, outputs))} ──"
            print(ink_for(sys.stderr).paint(line, "warn"), file=sys.stderr, flush=True)


def _follow(batches: Batches[Event], chosen: LogFilter, view: RawText | LineText) -> None:
    from drumbeat.model.api.jobs import JobView, LogPiece

    notices = NoticePrinter()
    try:
        for batch in batches:
            now = time.monotonic()
            text = ""
            for piece in batch:
                if isinstance(piece, LogPiece) and chosen.has(piece):
                    text += view.take(piece, now)
                elif isinstance(piece, JobView):
                    notices.see(piece)
            _write(text + view.due(now))
    finally:
        _write(view.end())


def _write(text: str) -> None:
    if text:
        sys.stdout.write(text)
        sys.stdout.flush()


@dataclass(frozen=True)
class LogFilter:
    """Selects the pieces of a job's logs; None = all, except those that are only shown on request."""

    rank: int | None = None
    node: int | None = None
    round: tuple[int, int] | None = None
    job: JobView | None = None

    def has(self, piece: LogPiece) -> bool:
        """Whether a piece is shown."""
        return (
            self.rank in (None, piece.rank)
            and self.node in (None, piece.node)
            and self.round in (None, (piece.attempt, piece.round))
            and not (self.is_open and self.job and self.job.is_infrastructure(piece.rank))
        )

    @property
    def is_open(self) -> bool:
        """Whether neither a rank nor a node is selected."""
        return self.rank is None and self.node is None

    @property
    def sentence(self) -> str:
        """The selection in words; "" = everything."""
        places = (("rank", self.rank), ("node", self.node), ("round", self.round and _dotted(self.round)))
        return " and ".join(f"{kind} {place}" for kind, place in places if place is not None)


@dataclass(frozen=True)
class _Lack:
    """A rank, a node or a round that a job doesn't have. size: how many it has, or its last."""

    job: str
    kind: str
    place: str
    size: tuple[int, ...]
    advice: str


def check_places(job: JobView, chosen: LogFilter) -> None:
    """Raises NotFoundError for a rank or a node that the job doesn't have: silence would look like an empty log."""
    for lack in _lacks(job, chosen):
        raise NotFoundError(f"the job has no {lack.kind} {lack.place}", where=job.name, fix=lack.advice)


def check_steps(pipeline: str, jobs: Sequence[JobView], chosen: LogFilter) -> None:
    """Raises NotFoundError where none of the steps' jobs has the selected rank or node."""
    lacks = [lack for job in jobs for lack in list(_lacks(job, chosen))[:1]]
    if not lacks or len(lacks) < len(jobs):
        return
    largest = max((lack for lack in lacks if lack.kind == lacks[0].kind), key=lambda lack: lack.size)
    advice = f"{largest.job} has the most {largest.kind}s. {largest.advice}" if len(jobs) > 1 else largest.advice
    raise NotFoundError(f"no step has {chosen.sentence}", where=pipeline, fix=advice)


def _lacks(job: JobView, chosen: LogFilter) -> Iterator[_Lack]:
    nodes, ranks = job.node_count, job.world_size
    if job.elastic:  # An earlier attempt may have had more.
        nodes, ranks = job.elastic.max_nodes, ranks // nodes * job.elastic.max_nodes
    for kind, number, size in (("rank", chosen.rank, ranks), ("node", chosen.node, nodes)):
        if number is not None and number >= size:
            advice = f"It has {kind}s 0 to {size - 1}." if size > 1 else f"Its only {kind} is 0."
            yield _Lack(job.name, kind, str(number), (size,), advice)
    last = (job.attempt, job.round)
    if chosen.round is not None and chosen.round > last and job.ended_at:
        advice = f"Its last is {_dotted(last)}; it has ended."
        yield _Lack(job.name, "round", _dotted(chosen.round), last, advice)


def _dotted(number: tuple[int, int]) -> str:
    return ".".join(map(str, number))

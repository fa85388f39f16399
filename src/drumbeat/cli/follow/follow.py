"""Following a job to its end, or until a user has had enough of it."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from drumbeat.cli.follow.background_reader import Batches, Signalled
from drumbeat.cli.follow.event_printer import Watch
from drumbeat.cli.follow.interrupts import SIGNAL_EXIT, InterruptAction, choose, signals_to
from drumbeat.cli.follow.live_line import LiveLine, Now
from drumbeat.cli.follow.log_lines import LogLook, LogView, event_weight, prefix_width
from drumbeat.cli.follow.summary import exit_code_for, format_closing
from drumbeat.cli.terminal.connect import connect
from drumbeat.cli.terminal.styles import has_terminal, ink_for
from drumbeat.cli.terminal.untrusted_text import make_safe
from drumbeat.model.api.jobs import Event, JobView
from drumbeat.model.errors import ConflictError, UnreachableError
from drumbeat.model.states import State

if TYPE_CHECKING:
    from drumbeat.client import Client


def follow(
    client: Client, job: JobView, *, is_quiet: bool = False, at_end: Callable[[JobView], None] = lambda _job: None
) -> int:
    """Prints the job's stages, logs and end; returns the exit code. at_end: prints what comes before the last lines."""
    ink = ink_for(sys.stdout)
    line = LiveLine(sys.stdout, is_live=has_terminal(sys.stdout))
    away = threading.Event()
    logs = LogView(LogLook(ink, width=prefix_width(job.node_count, job.world_size)), away)
    watch = Watch(job, line, logs, ink, is_quiet=is_quiet)
    batches = Batches[Event](client.stream(job.name, away=away), weigh=event_weight)
    try:
        with signals_to(batches.signal):
            signal_number = _watch(watch, batches)
    except UnreachableError as error:
        raise UnreachableError(
            error.what, where=error.where, fix=f"The job continues. Come back: drumbeat logs -f {job.name}"
        ) from error
    finally:
        watch.close()
    if signal_number and not watch.job.has_ended:
        print(*format_detached(job.name), sep="\n")
        return SIGNAL_EXIT + signal_number
    ended = client.get(job.name)
    at_end(ended)
    print(*format_closing(ended, ink), sep="\n")
    return SIGNAL_EXIT + signal_number if signal_number else exit_code_for(ended)


def _watch(watch: Watch, batches: Batches[Event]) -> int:
    """Returns 0 when the job has ended, else the signal that ended the following."""
    for batch in batches:
        watch.see([event for event in batch if not isinstance(event, Signalled)], _now())
        if watch.has_ended:
            return 0
        for signalled in batch:
            if isinstance(signalled, Signalled) and _is_left(watch, signalled):
                return signalled.number
    return 0


def _is_left(watch: Watch, signalled: Signalled) -> bool:
    """Whether to stop following; cancels the job if that was chosen."""
    watch.close()
    if watch.job.has_ended:  # The server is only still storing its outputs.
        return True
    has_user = sys.stdin.isatty() and sys.stdout.isatty()
    choice = choose(signalled, is_stopping=watch.is_canceling, has_user=has_user)
    if choice is InterruptAction.CANCEL:
        watch.is_canceling = True
        print(*cancel(watch.job.name), sep="\n", flush=True)
    return choice is InterruptAction.DETACH


def cancel(name: str) -> list[str]:
    """Cancels the job; returns what follows, or why there is nothing to stop any more."""
    try:
        # A client of its own: the other one belongs to the thread that reads the stream.
        asked = connect(autostart=False).cancel(name)
    except ConflictError as error:
        return [make_safe(error.what), *([f"  → {make_safe(error.fix)}"] if error.fix else [])]
    if asked.state == State.FINALIZING:
        return [f"{name} is canceled, and keeps its results"]
    return [f"canceling {name}; its ranks get SIGTERM, and SIGKILL after their grace time"]


def format_detached(name: str) -> list[str]:
    """Says how to follow the job again."""
    return [
        f"detached: {name} continues",
        f"  come back  drumbeat logs -f {name}",
        f"  cancel     drumbeat cancel {name}",
    ]


def _now() -> Now:
    return Now(datetime.now(UTC), time.monotonic())

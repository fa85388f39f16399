"""How jobs are shown: the table of a list, and one job in full."""

from __future__ import annotations

import signal
from datetime import datetime
from typing import TYPE_CHECKING

from drumbeat.cli.terminal.formatting import (
    format_ago,
    format_best,
    format_duration,
    format_launch,
    format_metric,
    format_moment,
    format_not_finite,
    format_result,
)
from drumbeat.cli.terminal.node_groups import MAX_ROWS, exit_groups, format_ranges, node_groups, node_state
from drumbeat.cli.terminal.screen import (
    cell,
    fill_table,
    fitted,
    heading,
    indented,
    make_table,
    pairs,
    state_cell,
)
from drumbeat.cli.terminal.untrusted_text import safe_lines
from drumbeat.model.mesh import format_mesh, format_place
from drumbeat.model.plurals import counted, format_about
from drumbeat.model.states import JobKind, Reason, State

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from rich.console import RenderableType
    from rich.table import Table

    from drumbeat.model.api.jobs import ExitView, JobView, JobWithEvents, NodeView
    from drumbeat.model.api.outlooks import HolderView, OutlookView, StartView
    from drumbeat.model.api.sessions import ServiceView

COLUMNS = ("job", "state", "person", "experiment", ">ranks", ">submitted", ">ran", "metric", "why")
DROPPED = ("experiment", "person", "metric", ">ran", ">ranks", ">submitted", "why", "state")
"""Columns that a narrow terminal leaves out, the first one first."""


MESH_RANKS_SHOWN = 64


def job_table(jobs: Iterable[JobView], now: datetime, width: int, starts: Mapping[str, StartView] = {}) -> Table:
    """Returns a table with a row for each job. width: of the terminal. starts: when those that wait may start.

    The metric's column is there when a job has logged any, the users' when there are several.
    """
    shown = list(jobs)
    absent = {"" if any(job.primary or job.best_trial for job in shown) else "metric"}
    absent |= {"" if len({job.person for job in shown}) > 1 else "person"}
    rows = [
        (
            job.name,
            state_cell(job.state).append(_beside_state(job, starts.get(job.name), now), "dim"),
            job.person,
            job.experiment,
            _ranks(job),
            format_ago(job.submitted_at, now),
            format_duration((job.ended_at or now) - job.started_at) if job.started_at else "",
            format_result(job),
            _sentence(job),
        )
        for job in shown
    ]
    kept = [n for n, title in enumerate(COLUMNS) if title not in absent]
    titles = [COLUMNS[n] for n in kept]
    dropped = [title for title in DROPPED if title in titles]
    return fitted(titles, [[row[n] for n in kept] for row in rows], width, dropped)


def _beside_state(job: JobView, start: StartView | None, now: datetime) -> str:
    if start and start.at and job.state == State.QUEUED:
        return f" {'≤' if start.at == start.latest else '≈'} {format_about((start.at - now).total_seconds())}"
    return " archived" if job.archived else ""


def render_wait(outlook: OutlookView, start: StartView, now: datetime) -> Iterator[RenderableType]:
    """The place of a waiting job, when it may start and by what that is estimated, and who holds the slots."""
    yield heading("Its wait")
    place = f"{start.place} of {start.waiting} in the queue of {start.compute}"
    yield pairs([("place", place), ("start", start.sentence.removeprefix("starts ")), ("smaller", outlook.fewer)])
    if outlook.holders:
        yield heading(f"Who holds the slots of {start.compute}")
        rows = [
            (
                one.job,
                one.person,
                _format_holding(one),
                format_ago(one.since, now) if one.since else "not yet",
                format_steps(one),
                f"in {format_about((one.deadline - now).total_seconds())}" if one.deadline else "none",
                format_end_of(one, now),
            )
            for one in outlook.holders
        ]
        titles = ("job", "person", "holds", "started", ">step", "time limit", "ends")
        yield fill_table(make_table(*titles), rows)


def _format_holding(holder: HolderView) -> str:
    gpus = f", {counted(holder.gpus, 'GPU')}" if holder.gpus else ""
    return f"{counted(holder.nodes, 'node')}, {counted(holder.cpus, 'slot')}{gpus}"


def format_steps(holder: HolderView) -> str:
    """Formats how far a job is, "" = it isn't known."""
    if holder.step is None:
        return ""
    if not holder.steps:
        return f"{holder.step:,}"
    return f"{holder.step:,} of {holder.steps:,} ({min(100, 100 * holder.step // holder.steps)} %)"


def format_end_of(holder: HolderView, now: datetime) -> str:
    """Formats when a job ends and by what that is estimated."""
    if holder.ends_at is None:
        return f"unknown: {holder.ground}"
    how = "at most" if holder.is_limit else "about"
    return f"in {how} {format_about((holder.ends_at - now).total_seconds())}, {holder.ground}"


def _ranks(job: JobView) -> str:
    if job.type != JobKind.COMMAND:
        return str(job.type)
    is_even = job.world_size == job.node_count * job.processes_per_node
    return f"{job.node_count}×{job.processes_per_node}" if is_even else f"{job.world_size} on {job.node_count}"


def render_job(
    job: JobWithEvents, graph: Iterable[RenderableType] = (), results: Iterable[RenderableType] = ()
) -> Iterator[RenderableType]:
    """Everything that is known of a job. graph: of a pipeline, its steps. results: its metrics, if it has ended."""
    yield from results
    yield pairs([*_facts(job), ("pre-flight", job.preflight.sentence if job.preflight else "")])
    yield from _verdict(job)
    if len(job.failures) > 1 or (job.failures and job.state != State.FAILED):
        yield heading("Rounds that failed")
        rows = [(f"{one.attempt}.{one.round}", format_moment(one.at), one.verdict.sentence) for one in job.failures]
        yield fill_table(make_table(">round", "when", "why"), rows)
    if job.command:
        yield heading("Command")
        yield indented(job.command)
    yield from _mesh(job)
    if job.nodes:
        yield heading(f"Nodes of attempt {job.attempt}, round {job.round}")
        yield from _nodes(job.nodes)
        yield from _exits(job)
    yield from _services(job)
    yield from graph
    yield heading("History")
    rows = [
        (format_moment(e.at), f"+{format_duration(e.at - job.submitted_at)}", state_cell(e.state), e.sentence)
        for e in job.story
    ]
    yield fill_table(make_table("when", ">after", "state", "what happened"), rows)


def _facts(job: JobWithEvents) -> list[tuple[str, object]]:
    return [
        ("job", job.name + (" (archived)" if job.archived else "")),
        ("title", job.display_name if job.display_name != job.name else ""),
        ("description", job.description),
        ("experiment", job.experiment),
        ("person", job.person),
        ("state", state_cell(job.state)),
        ("why", job.progress),
        ("notice", job.notice),
        ("engine says", _engines_word(job)),
        ("type", job.type if job.type != JobKind.COMMAND else ""),
        ("part of", job.parent),
        ("continues", _continued(job)),
        ("run again from", job.origin if not job.continues else ""),
        ("continued by", ", ".join(job.continued_by)),
        ("run again as", ", ".join(name for name in job.successors if name not in job.continued_by)),
        ("shape", _shape(job)),
        ("mesh", format_mesh(job.mesh)),
        ("nodes", job.elastic or ""),
        ("metric", f"{format_metric(job.primary)} at step {job.primary.step:,}" if job.primary else ""),
        ("best", format_best(job.primary)),
        ("not a number", format_not_finite(job.not_finite)),
        ("best trial", f"{job.best_trial.job}: {format_result(job)}" if job.best_trial else ""),
        ("compute", job.compute),
        ("environment", job.environment),
        ("priority", job.priority or ""),
        ("tags", ", ".join(f"{name}={value}" for name, value in job.tags.items())),
        ("code", _commit(job)),
        *((title, format_moment(at)) for title, at in _moments(job) if at is not None),
        ("exit code", job.exit_code),
    ]


def _continued(job: JobWithEvents) -> str:
    """Says which job it continues, and from where."""
    if job.continues is None:
        return ""
    step = f"checkpoint at step {job.continues.step:,}" if job.continues.step is not None else "last checkpoint"
    gone = "" if job.origin else ", a deleted job,"
    return f"{job.continues.job}{gone} from its {step}"


def _shape(job: JobView) -> str:
    if job.type != JobKind.COMMAND:
        return ""
    return format_launch(job.launcher, job.node_count, job.processes_per_node, job.world_size)


def _commit(job: JobView) -> str:
    """Returns the commit of the code, and whether the code had changes."""
    commit, branch, where, dirty = (
        job.properties.get(f"azureml.git.{key}", "") for key in ("commit", "branch", "repository_uri", "dirty")
    )
    if not commit:
        return ""
    changed = {"True": "with changes", "False": ""}.get(dirty, "perhaps with changes")
    return ", ".join(
        part for part in (f"commit {commit[:12]}" + (f" of {branch}" if branch else ""), changed, where) if part
    )


def _engines_word(job: JobView) -> str:
    """Returns the engine's status of an active job: that of an ended one would mislead."""
    if job.observed is None or job.has_ended:
        return ""
    return f"{job.observed.word}, seen {format_moment(job.observed.at)}"


def _moments(job: JobView) -> list[tuple[str, datetime | None]]:
    return [
        ("submitted", job.submitted_at),
        ("started", job.started_at),
        ("ended", job.ended_at),
        ("SIGKILL at", job.stop_at if job.state == State.STOPPING else None),
        ("time limit", job.deadline if job.ended_at is None else None),
    ]


def _verdict(job: JobView) -> Iterator[RenderableType]:
    verdict = job.verdict
    if verdict is None or verdict.reason == Reason.FINISHED:
        return
    yield heading("Why it is being stopped" if job.state == State.STOPPING else "Why it ended")
    place = [f"rank {verdict.rank}" if verdict.rank is not None else "", f"node {verdict.node}"]
    yield pairs(
        [
            ("cause", verdict.sentence),
            ("where", ", ".join(place) if verdict.rank is not None else ""),
            ("others", verdict.aftermath),
            ("exit code", verdict.code),
            ("what to do", verdict.advice),
        ]
    )
    yield from (cell(f"  │ {line}") for line in safe_lines(verdict.tail))


def _sentence(job: JobView) -> str:
    if job.verdict and job.state == State.FAILED:
        return job.verdict.sentence
    return "; ".join(filter(None, (format_not_finite(job.not_finite), job.progress)))


def _mesh(job: JobView) -> Iterator[RenderableType]:
    """Renders which rank is which stage and shard."""
    if not job.mesh:
        return
    shown = range(min(job.world_size, MESH_RANKS_SHOWN))
    yield heading("Places of the ranks in the mesh")
    rows = [(rank // job.processes_per_node, rank, format_place(job.mesh, rank)) for rank in shown]
    yield fill_table(make_table(">node", ">rank", "place"), rows)
    if job.world_size > len(shown):
        yield cell(f"  … and {job.world_size - len(shown):,} more; drumbeat plan FILE --full lists all", "dim")


def _nodes(nodes: Sequence[NodeView]) -> Iterator[RenderableType]:
    """Renders each node of a job; of a large one, those that are alike in one row, the odd ones first."""
    if len(nodes) <= MAX_ROWS:
        yield fill_table(make_table(">node", "machine", "host", "address", "phase", "detail"), map(_node, nodes))
        return
    rows = [(f"{len(some):,}", *state, format_ranges([one.node for one in some])) for state, some in node_groups(nodes)]
    yield fill_table(make_table(">nodes", "phase", "detail", "which"), rows)


def _node(node: NodeView) -> tuple[object, ...]:
    return (node.node, node.machine, node.host, node.address, *node_state(node))


def _services(job: JobView) -> Iterator[RenderableType]:
    """Renders the services, and how each is reached."""
    if job.services:
        yield heading("Services")
        rows = [(one.name, one.type, one.node, format_service(one, job), _reach(one, job)) for one in job.services]
        yield fill_table(make_table("service", "type", ">node", "state", "how to reach it"), rows)


def format_service(one: ServiceView, job: JobView) -> str:
    """Formats the state of a service: `running`, why it isn't, or that it isn't yet."""
    if one.is_running:
        return "running"
    return one.problem or ("ended" if job.has_ended else "not running yet")


def _reach(one: ServiceView, job: JobView) -> str:
    return one.command(job.name) if one.is_running else ""


def _exits(job: JobView) -> Iterator[RenderableType]:
    exits = sorted(((one.at, node.node, one) for node in job.nodes for one in node.exits), key=lambda row: row[:2])
    if exits:
        first = exits[0][0]
        rows = [(one.rank, node, format_exit(one), f"+{at - first:.2f}s") for at, node, one in exits[:MAX_ROWS]]
        shown = f", the first {MAX_ROWS} of {len(exits):,}" if len(exits) > MAX_ROWS else ""
        yield heading(f"Ends of the ranks, earliest first{shown}")
        yield fill_table(make_table(">rank", ">node", "ended with", ">after the first"), rows)
        if shown:
            groups = exit_groups([one for *_, one in exits], format_exit)
            ends = [(f"{len(some):,}", word, format_ranges([one.rank for one in some])) for word, some in groups]
            yield fill_table(make_table(">ranks", "ended with", "which"), ends)


def format_exit(one: ExitView) -> str:
    """`exit code 1`, `SIGKILL`."""
    if one.signal is None:
        return f"exit code {one.code}"
    try:
        return signal.Signals(one.signal).name
    except ValueError:
        return f"signal {one.signal}"

"""`delete`, `prune`, `usage`: the commands about disk space."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from drumbeat.cli.terminal.age import parse_age
from drumbeat.cli.terminal.connect import connect
from drumbeat.cli.terminal.failures import Exit
from drumbeat.cli.terminal.formatting import count, format_duration, format_moment, format_size
from drumbeat.cli.terminal.help import AsJson
from drumbeat.cli.terminal.job_names import find_job
from drumbeat.cli.terminal.json_output import print_json
from drumbeat.cli.terminal.screen import fill_table, heading, make_table, pairs, show
from drumbeat.cli.terminal.untrusted_text import make_safe
from drumbeat.model.api.space import Freed, KeptItem
from drumbeat.model.errors import ConflictError, DrumbeatError, NotFoundError, RefusedError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import RenderableType

    from drumbeat.client import Client
    from drumbeat.model.api.space import SpaceItem, Usage


Jobs = Annotated[list[str], typer.Argument(metavar="JOB…", help="Names of jobs, their beginnings, or @last.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Don't ask.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would go, and delete nothing.")]
Age = Annotated[
    str, typer.Option("--older-than", metavar="AGE", help="Since a job ended, or a cached thing was used: 30d, 12h.")
]
KeepOutputs = Annotated[
    bool, typer.Option("--keep-outputs", help="Jobs that have kept outputs stay, without logs and checkpoints.")
]
OnlySnapshots = Annotated[bool, typer.Option("--snapshots", help="Delete only code and data that nothing needs.")]


def delete(jobs: Jobs, dry_run: DryRun = False, yes: Yes = False, as_json: AsJson = False) -> None:
    """Delete jobs that have ended: story, logs, outputs in the job's folder, checkpoints, and code that only they need.

    Outputs that were put into a datastore stay there. A job is kept while a registered version of data or another job
    needs it; the command says which.
    """
    client = connect()
    names = list(dict.fromkeys(_find(client, job) for job in jobs))
    if dry_run:
        _show(client.deletion_plan(names), as_json=as_json)
        return
    if not (yes or as_json) and sys.stdin.isatty():
        _print_freed(client.deletion_plan(names))
    _confirm(f"Delete {_named(names)} with logs, outputs and checkpoints?", is_sure=yes)
    freed, refused = _delete_all(client, names)
    if as_json:
        deleted = [name for name in names if name not in refused]
        reasons = [KeptItem(f"job {name}", error.what, error.fix) for name, error in refused.items()]
        print_json({"deleted": deleted, "refused": reasons, "freed": freed})
    else:
        _print_freed(freed)
        for error in refused.values():
            print(make_safe(f"{error.what}. {error.fix}"), file=sys.stderr)
    if refused:
        raise typer.Exit(Exit.FAILED)


def _find(client: Client, typed: str) -> str:
    """Returns the name of a job. Deleting one again is no error, so the full name of a deleted job counts, too."""
    try:
        return find_job(client, typed).name
    except NotFoundError as error:
        try:
            client.delete(typed)
        except DrumbeatError:
            raise error from None
        return typed


def _delete_all(client: Client, names: Sequence[str]) -> tuple[Freed, dict[str, ConflictError]]:
    """Deletes the jobs; a job that only the others need is tried again after them."""
    parts: list[Freed] = []
    left = list(names)
    while True:
        refused: dict[str, ConflictError] = {}
        for name in left:
            try:
                parts.append(client.delete(name))
            except ConflictError as error:
                refused[name] = error
        if not refused or len(refused) == len(left):
            break
        left = list(refused)
    items = tuple(item for part in parts for item in part.items)
    # A snapshot that was kept for another job may have been deleted with that one.
    gone = {f"snapshot {item.name[:12]}" for item in items}
    kept = {one.what: one for part in parts for one in part.kept if one.what not in gone}
    return Freed(items, tuple(kept.values()), sum(item.size for item in items)), refused


def prune(
    older_than: Age = "30d",
    keep_outputs: KeepOutputs = False,
    snapshots: OnlySnapshots = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Delete old jobs, code and data that nothing needs, and what the caches of the server's machine hold unused.

    Says what is kept although it is old, and why.
    """
    age = parse_age(older_than, "--older-than")
    client = connect()
    if not (dry_run or yes):
        rehearsal = client.prune(age, keep_outputs=keep_outputs, dry_run=True, only_snapshots=snapshots)
        if not rehearsal.items:
            _show(rehearsal, as_json=as_json)
            return
        if not as_json:
            _print_freed(rehearsal)
        _confirm(f"Delete {_counted(rehearsal)}?", is_sure=False)
    freed = client.prune(age, keep_outputs=keep_outputs, dry_run=dry_run, only_snapshots=snapshots)
    _show(freed, as_json=as_json)


def usage(
    limit: Annotated[int, typer.Option("--limit", "-n", metavar="N", min=1, help="How many lines at most.")] = 30,
    as_json: AsJson = False,
) -> None:
    """Show what takes space on the server's machine, the biggest first: jobs, snapshots, caches, datastores."""
    view = connect().usage()
    if as_json:
        print_json(view)
        return
    show(*render_usage(view, limit))


def _confirm(question: str, *, is_sure: bool) -> None:
    """Asks on a terminal. Raises RefusedError without one; ends the command when the answer is no."""
    if is_sure:
        return
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise RefusedError("this deletes, and there is no terminal to confirm it on", fix="Add --yes.")
    if not typer.confirm(make_safe(question), err=True):
        print("nothing was deleted")
        raise typer.Exit(Exit.FAILED)


def _named(names: Sequence[str]) -> str:
    return f"job {names[0]}" if len(names) == 1 else f"{len(names)} jobs ({', '.join(names)})"


def _counted(freed: Freed) -> str:
    checkpoints = sum(one.parts.get("checkpoints", 0) for one in freed.items)
    share = f", of which {format_size(checkpoints)} are checkpoints" if checkpoints else ""
    return f"{count(len(freed.items), 'thing')}, {format_size(freed.total)}{share}"


def _show(freed: Freed, *, as_json: bool) -> None:
    if as_json:
        print_json(freed)
    else:
        _print_freed(freed)


def _print_freed(freed: Freed) -> None:
    for line in freed_lines(freed):
        print(make_safe(line))


DIGEST = 12
"""Characters of a long hexadecimal name."""


def render_usage(usage: Usage, limit: int) -> Iterator[RenderableType]:
    """Renders the biggest items, then the sums."""
    table = make_table(">size", "kind", "name", "used", "about")
    rows = [
        (format_size(one.size), one.kind, _name(one), format_moment(one.used_at) if one.used_at else "", _about(one))
        for one in usage.items[:limit]
    ]
    yield fill_table(table, rows)
    if rest := usage.items[limit:]:
        yield heading(f"and {count(len(rest), 'smaller thing')}: {format_size(sum(one.size for one in rest))}")
    yield heading("totals")
    totals = [(kind, format_size(size)) for kind, size in usage.totals.items()]
    retain = f"{format_duration(timedelta(seconds=usage.retain_s))} after their end" if usage.retain_s else "never"
    free = [("free", format_size(usage.free))] if usage.free else []
    yield pairs([*totals, ("total", format_size(usage.total)), *free, ("jobs are deleted", retain)])


def freed_lines(freed: Freed) -> Iterator[str]:
    """Yields a line for each item that was or would be deleted, one for each that is kept, and the sum."""
    verb = "would delete" if freed.is_dry else "deleted"
    for one in freed.items:
        yield f"{verb} {one.kind} {_name(one)} ({format_size(one.size)}{f', {one.note}' if one.note else ''})"
    for kept in freed.kept:
        yield f"kept {kept.what}: {kept.why}{f'. {kept.fix}' if kept.fix else ''}"
    yield f"{'would free' if freed.is_dry else 'freed'} {format_size(freed.total)}"


def _name(one: SpaceItem) -> str:
    is_digest = one.kind in ("snapshot", "data cache", "environment") and len(one.name) > 2 * DIGEST
    return one.name[:DIGEST] if is_digest and " " not in one.name else one.name


def _about(one: SpaceItem) -> str:
    parts = ", ".join(f"{name} {format_size(size)}" for name, size in one.parts.items() if size)
    return "; ".join(part for part in (one.note, parts) if part)

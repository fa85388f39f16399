"""`schedule`: jobs that the server submits again and again."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from drumbeat.cli.terminal.connect import connect
from drumbeat.cli.terminal.formatting import format_moment
from drumbeat.cli.terminal.help import AsJson, Yes, add_command, new_family
from drumbeat.cli.terminal.json_output import print_json
from drumbeat.cli.terminal.screen import fill_table, heading, make_table, pairs, show
from drumbeat.model.errors import SpecError
from drumbeat.model.plurals import counted, list_first

if TYPE_CHECKING:
    from rich.console import RenderableType

    from drumbeat.model.api.schedules import ScheduleView

MAX_JOBS = 5
"""Jobs that are named."""

Name = Annotated[str, typer.Argument(metavar="NAME", help="The schedule's name.")]
Sets = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Set a key, like trigger.interval=2. Repeatable."),
]


def create(
    file: Annotated[Path, typer.Option("--file", "-f", metavar="FILE", help="The file that describes it.")],
    name: Annotated[str | None, typer.Option("--name", "-n", metavar="NAME", help="Set the name in the file.")] = None,
    sets: Sets = None,
    as_json: AsJson = False,
) -> None:
    """Create a schedule from a file.

    The code and the local data of its job are sent now, and its job is checked as if it were submitted.
    """
    named = [f"name={name}"] if name else []
    _print_made("created", connect().create_schedule(file, sets=[*(sets or []), *named], is_new=True), as_json=as_json)


def update(
    name: Name,
    file: Annotated[
        Path | None,
        typer.Option("--file", "-f", metavar="FILE", help="The file that describes it now; its job is sent again."),
    ] = None,
    sets: Sets = None,
    as_json: AsJson = False,
) -> None:
    """Change a schedule, by keys or by its file. Without a file, its job stays as it was sent."""
    client = connect()
    if file is None and not sets:
        raise SpecError("nothing to change was given", fix="Give --set KEY=VALUE, or --file FILE.")
    if file is None:
        made = client.update_schedule(name, sets or [])
    else:
        client.schedule(name)
        made = client.create_schedule(file, sets=[*(sets or []), f"name={name}"])
    _print_made("updated", made, as_json=as_json)


def _print_made(verb: str, made: ScheduleView, *, as_json: bool) -> None:
    if as_json:
        print_json(made)
        return
    print(f"schedule {made.name} is {verb}: {made.title}")
    print(f"  {_coming(made)}")


def _coming(one: ScheduleView) -> str:
    """Formats when the next job comes, and the command that helps."""
    if not one.is_enabled:
        return f"it is disabled; to enable it: drumbeat schedule enable {one.name}"
    if one.next_run is None:
        return "it has no time to come any more"
    return f"next run {format_moment(one.next_run)}; to submit its job now: drumbeat schedule trigger {one.name}"


def list_schedules(
    enabled_only: Annotated[bool, typer.Option("--enabled-only", help="Only enabled ones.")] = False,
    disabled_only: Annotated[bool, typer.Option("--disabled-only", help="Only disabled ones.")] = False,
    as_json: AsJson = False,
) -> None:
    """List the schedules with their last and next runs."""
    if enabled_only and disabled_only:
        raise SpecError("--enabled-only and --disabled-only leave none", fix="Give one of them.")
    chosen = [one for one in connect().schedules() if one.is_enabled or not enabled_only]
    chosen = [one for one in chosen if not (one.is_enabled and disabled_only)]
    if as_json:
        print_json(chosen)
    elif not chosen:
        print("no schedules; create one: drumbeat schedule create -f FILE")
    else:
        table = make_table("schedule", "times", "user", "last run", "next run", "problem")
        show(fill_table(table, map(_row, chosen)))


def _row(one: ScheduleView) -> tuple[object, ...]:
    coming = _moment(one.next_run) if one.is_enabled else "disabled"
    return one.name, one.title, one.user, _moment(one.last_run), coming, one.problem


def _moment(at: datetime | None) -> str:
    return format_moment(at) if at else ""


def show_schedule(name: Name, as_json: AsJson = False) -> None:
    """Show a schedule: its times, its job, its last and next runs, and its jobs."""
    one = connect().schedule(name)
    if as_json:
        print_json(one)
    else:
        show(*render_schedule(one))


def render_schedule(one: ScheduleView) -> Iterator[RenderableType]:
    """Everything about one schedule."""
    from drumbeat.jobfile.reading.writer import dumps_document

    yield pairs(
        [
            ("schedule", one.name),
            ("name", one.display_name),
            ("about", one.description),
            ("tags", ", ".join(f"{key}={value}" for key, value in one.tags.items())),
            ("user", one.user),
            ("created", format_moment(one.created_at)),
            ("times", one.title),
            ("from", str(one.trigger.get("start_time") or "")),
            ("until", str(one.trigger.get("end_time") or "")),
            ("missed times", one.missed),
            ("overlaps", one.overlap),
            ("last run", f"{_moment(one.last_run)}  {one.last_job}".strip()),
            ("next run", _moment(one.next_run) if one.is_enabled else "disabled"),
            ("waiting", counted(one.waiting, "time") if one.waiting else ""),
            ("problem", one.problem),
            ("jobs", list_first(one.jobs, MAX_JOBS)),
        ]
    )
    yield heading("Job")
    yield dumps_document(one.job)


def enable(name: Name) -> None:
    """Enable a schedule. Times that passed while it was disabled have no job."""
    made = connect().enable_schedule(name)
    print(f"schedule {made.name} is enabled; {_coming(made)}")


def disable(name: Name) -> None:
    """Disable a schedule. Its jobs continue."""
    made = connect().disable_schedule(name)
    print(f"schedule {made.name} is disabled; its jobs continue")


def trigger(name: Name, as_json: AsJson = False) -> None:
    """Submit the job of a schedule now, beside its times and also while it is disabled."""
    job = connect().trigger_schedule(name)
    if as_json:
        print_json(job)
    else:
        print(f"job {job.name} is submitted; follow it: drumbeat logs -f {job.name}")


def delete(name: Name, _yes: Yes = False) -> None:
    """Delete a schedule. Its jobs stay."""
    connect().delete_schedule(name)
    print(f"schedule {name} is deleted; its jobs stay")


app = new_family(
    "Create and manage schedules, by which the server submits a job again and again. See docs/schedules.md."
)
for word, command, example in (
    ("create", create, "drumbeat schedule create -f schedule.yml"),
    ("update", update, "drumbeat schedule update nightly --set trigger.expression='0 4 * * *'"),
    ("list", list_schedules, "drumbeat schedule list"),
    ("show", show_schedule, "drumbeat schedule show nightly"),
    ("enable", enable, "drumbeat schedule enable nightly"),
    ("disable", disable, "drumbeat schedule disable nightly"),
    ("trigger", trigger, "drumbeat schedule trigger nightly"),
    ("delete", delete, "drumbeat schedule delete nightly"),
):
    add_command(app, word, command, example)

"""`notice`: where the server reports the ends of jobs is made, listed, tried and deleted."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from drumbeat.cli.commands.jobs import AsJson
from drumbeat.cli.terminal.connect import connect
from drumbeat.cli.terminal.help import Yes, add_command, new_family

app = new_family("Create and try notice targets: webhooks and mail that report the ends of jobs. See docs/notices.md.")

Name = Annotated[str, typer.Argument(metavar="NAME", help="The target's name.")]


def create(
    file: Annotated[
        Path, typer.Option("--file", "-f", metavar="FILE", help="The file that describes it; see docs/notices.md.")
    ],
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="The target's name.")] = None,
    sets: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Set a key of the file. Repeatable.")
    ] = None,
) -> None:
    """Create a notice target, or replace the one of the same name.

    The file doesn't have to contain secrets: `url: env:NAME` reads one from the environment of this command,
    `password: file:PATH` from a file. The server stores them encrypted and never shows them.
    """
    named = [f"name={name}"] if name else []
    made = connect().create_notice_target(file, sets=[*(sets or []), *named])
    whose = "every job" if made.jobs == "all" else "jobs that name it"
    print(f"notice target {made.name} is there: {made.type} at {made.place}, for {whose}")
    print(f"  try it: drumbeat notice test {made.name}")


def list_targets(as_json: AsJson = False) -> None:
    """List notice targets."""
    targets = connect().notice_targets()
    if as_json:
        from drumbeat.cli.terminal.json_output import print_json

        print_json(targets)
    elif not targets:
        print("no notice targets")
    else:
        from drumbeat.cli.terminal.screen import fill_table, make_table, show

        rows = [(one.name, one.type, one.jobs, ", ".join(one.on), one.place, one.problem) for one in targets]
        show(fill_table(make_table("target", "type", "jobs", "on", "place", "last problem"), rows))


def show_target(name: Name, as_json: AsJson = False) -> None:
    """Show a notice target without its secrets, and why its last notice could not be delivered."""
    target = connect().notice_target(name)
    if as_json:
        from drumbeat.cli.terminal.json_output import print_json

        print_json(target)
    else:
        from drumbeat.cli.terminal.screen import pairs, show

        rows = [("target", target.name), ("type", target.type), ("jobs", target.jobs), ("on", ", ".join(target.on))]
        rows += [("place", target.place), ("receivers", ", ".join(target.receivers))]
        show(pairs([*rows, ("description", target.description), ("last problem", target.problem)]))


def try_target(name: Name) -> None:
    """Deliver a test notice to a target now."""
    target = connect().test_notice_target(name)
    print(f"a test notice was delivered to {target.name} ({target.place})")


def delete(name: Name, _yes: Yes = False) -> None:
    """Delete a notice target and its secrets. Notices that wait for it are dropped."""
    connect().delete_notice_target(name)
    print(f"notice target {name} is deleted")


for title, command, example in (
    ("create", create, "drumbeat notice create -f slack.yml --set credentials.url=env:SLACK_URL"),
    ("list", list_targets, "drumbeat notice list"),
    ("show", show_target, "drumbeat notice show slack"),
    ("test", try_target, "drumbeat notice test slack"),
    ("delete", delete, "drumbeat notice delete slack"),
):
    add_command(app, title, command, example)

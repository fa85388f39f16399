"""The families of commands of named things, made of the records of their kinds: create, list, show, delete."""

# Without late annotations: those of the commands have texts of the kind.

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from drumbeat.cli.commands.jobs import AsJson
from drumbeat.cli.terminal.connect import connect
from drumbeat.cli.terminal.help import Yes, add_command, new_family
from drumbeat.cli.terminal.json_output import print_json
from drumbeat.cli.terminal.screen import fill_table, make_table, pairs, show
from drumbeat.resources.datastore import DATASTORE, created
from drumbeat.resources.kind import Kind
from drumbeat.resources.notice_target import NOTICE_TARGET
from drumbeat.resources.registry import REGISTRY

Command = tuple[str, Callable[..., None], str]
"""A word, what is done, and an example."""
Sets = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Set a key of the file. Repeatable.")
]


def resource_family(kind: Kind[Any], *others: Command) -> typer.Typer:
    """Returns the commands of a kind. others: more of them, or others in place of those of every kind."""
    own: dict[str, Command] = {word: (word, command, example) for word, command, example in others}
    family, sentences = new_family(kind.sentences.about), kind.sentences
    commands = {
        "create": ("create", _create_command(kind), f"drumbeat {kind.name} create {sentences.create_example}"),
        "list": ("list", _list_command(kind), f"drumbeat {kind.name} list"),
        "show": ("show", _show_command(kind), f"drumbeat {kind.name} show {sentences.example}"),
        **own,
        "delete": ("delete", _delete_command(kind), f"drumbeat {kind.name} delete {sentences.example}"),
    }
    for word, command, example in commands.values():
        add_command(family, word, command, example)
    return family


def _create_command(kind: Kind[Any]) -> Callable[..., None]:
    """Returns the command that creates a resource from a file."""
    file_help = f"The file that describes it; see {kind.sentences.page}."

    def create(
        file: Annotated[Path, typer.Option("--file", "-f", metavar="FILE", help=file_help)],
        name: Annotated[str | None, typer.Argument(metavar="[NAME]", help=f"The {kind.noun}'s name.")] = None,
        sets: Sets = None,
    ) -> None:
        named = [f"name={name}"] if name else []
        made = connect().create_resource(kind, file, sets=[*(sets or []), *named])
        print(kind.sentences.created(made))

    create.__doc__ = kind.sentences.create
    return create


def _list_command(kind: Kind[Any]) -> Callable[..., None]:
    def list_all(as_json: AsJson = False) -> None:
        resources = connect().resources(kind)
        if as_json:
            print_json(resources)
        elif not resources:
            print(kind.sentences.empty)
        else:
            rows = [kind.sentences.columns(one) for one in resources]
            show(fill_table(make_table(*rows[0]), (row.values() for row in rows)))

    list_all.__doc__ = kind.sentences.list
    return list_all


def _show_command(kind: Kind[Any]) -> Callable[..., None]:
    name_help = kind.sentences.name_help or f"The {kind.noun}'s name."

    def show_one(name: Annotated[str, typer.Argument(metavar="NAME", help=name_help)], as_json: AsJson = False) -> None:
        resource = connect().resource(kind, name)
        if as_json:
            print_json(resource)
        else:
            show(pairs(kind.sentences.details(resource).items()))

    show_one.__doc__ = kind.sentences.show
    return show_one


def _delete_command(kind: Kind[Any]) -> Callable[..., None]:
    name_help = kind.sentences.name_help or f"The {kind.noun}'s name."

    def delete(name: Annotated[str, typer.Argument(metavar="NAME", help=name_help)], _yes: Yes = False) -> None:
        connect().delete_resource(kind, name)
        print(kind.sentences.deleted.format(name=name))

    delete.__doc__ = kind.sentences.delete
    return delete


# --- the families -------------------------------------------------------------------------------------------------
def try_target(name: Annotated[str, typer.Argument(metavar="NAME", help="The notice target's name.")]) -> None:
    """Deliver a test notice to a target now."""
    target = connect().test_notice_target(name)
    print(f"a test notice was delivered to {target.name} ({target.place})")


def create_datastore(
    file: Annotated[
        Path, typer.Option("--file", "-f", metavar="FILE", help="The file that describes it; see docs/data.md.")
    ],
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="The name that jobs use.")] = None,
    sets: Sets = None,
    check: Annotated[
        bool,
        typer.Option("--check/--no-check", help="Contact the store first, and save nothing if it does not answer."),
    ] = True,
) -> None:
    """Create a datastore, or replace the one of the same name.

    The file doesn't have to contain secrets: `account_key: env:NAME` reads one from the environment of this command,
    `private_key: file:PATH` from a file. The server stores secrets encrypted and never shows them.
    """
    named = [f"name={name}"] if name else []
    made = connect().create_resource(DATASTORE, file, sets=[*(sets or []), *named], check=check)
    print(created(made, is_checked=check))


registry = resource_family(REGISTRY)
notice = resource_family(NOTICE_TARGET, ("test", try_target, "drumbeat notice test slack"))
datastore = resource_family(
    DATASTORE,
    ("create", create_datastore, f"drumbeat datastore create {DATASTORE.sentences.create_example}"),
)

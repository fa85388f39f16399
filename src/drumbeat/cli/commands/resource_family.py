"""Makes the commands for named things from the records of their kinds: create, list, show, archive, delete."""

# Without late annotations: those of the commands have texts of the kind.

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from drumbeat.cli.commands.archiving import All, archive_commands
from drumbeat.cli.commands.jobs import AsJson
from drumbeat.cli.terminal.connect import connect
from drumbeat.cli.terminal.formatting import format_moment
from drumbeat.cli.terminal.help import Yes, add_command, new_family
from drumbeat.cli.terminal.json_output import print_json
from drumbeat.cli.terminal.screen import fill_table, make_table, pairs, show
from drumbeat.model.errors import SpecError
from drumbeat.resources.datastore import DATASTORE, created
from drumbeat.resources.kind import Kind
from drumbeat.resources.notice_target import NOTICE_TARGET
from drumbeat.resources.registry import REGISTRY

V = TypeVar("V")
Command = tuple[str, Callable[..., None], str]
"""Name, function and example of a command."""
Sets = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Set a key of the file. Repeatable.")
]


def resource_family(kind: Kind[Any], *others: Command) -> typer.Typer:
    """Returns the commands of a kind. others: additional ones, or replacements of the standard ones."""
    own: dict[str, Command] = {word: (word, command, example) for word, command, example in others}
    family, sentences, start = new_family(kind.sentences.about), kind.sentences, f"drumbeat {kind.name}"
    lists, shows, deletes, chosen = _list_command(kind), _show_command(kind), _delete_command(kind), ""
    archives: tuple[Command, ...] = ()
    if kind.has_versions:
        archives = archive_commands(kind, split_title)
        lists, shows, deletes = _list_versions(kind), _show_version(kind), _delete_version(kind)
        chosen = f" --name {sentences.example.partition(':')[0]}"
    commands = {
        "create": ("create", _create_command(kind), f"{start} create {sentences.create_example}"),
        "list": ("list", lists, f"{start} list{chosen}"),
        "show": ("show", shows, f"{start} show {sentences.example}"),
        **own,
        **{word: (word, command, example) for word, command, example in archives},
        "delete": own.get("delete", ("delete", deletes, f"{start} delete {sentences.example}")),
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
        _print_all(kind, connect().resources(kind), as_json=as_json)

    list_all.__doc__ = kind.sentences.list
    return list_all


def _print_all(kind: Kind[Any], resources: list[Any], *, as_json: bool) -> None:
    if as_json:
        print_json(resources)
    elif not resources:
        print(kind.sentences.empty)
    else:
        rows = [kind.sentences.columns(one) for one in resources]
        show(fill_table(make_table(*rows[0]), (map(_cell, row.values()) for row in rows)))


def _cell(value: object) -> object:
    return format_moment(value) if isinstance(value, datetime) else value


def _show_command(kind: Kind[Any]) -> Callable[..., None]:
    name_help = kind.sentences.name_help or f"The {kind.noun}'s name."

    def show_one(name: Annotated[str, typer.Argument(metavar="NAME", help=name_help)], as_json: AsJson = False) -> None:
        _print_one(kind, connect().resource(kind, name), as_json=as_json)

    show_one.__doc__ = kind.sentences.show
    return show_one


def _print_one(kind: Kind[V], resource: V, *, as_json: bool) -> None:
    if as_json:
        print_json(resource)
    else:
        show(pairs((name, _cell(value)) for name, value in kind.sentences.details(resource).items()))


def _delete_command(kind: Kind[Any]) -> Callable[..., None]:
    name_help = kind.sentences.name_help or f"The {kind.noun}'s name."

    def delete(name: Annotated[str, typer.Argument(metavar="NAME", help=name_help)], _yes: Yes = False) -> None:
        connect().delete_resource(kind, name)
        print(kind.sentences.deleted.format(name=name))

    delete.__doc__ = kind.sentences.delete
    return delete


# --- of kinds with versions ---------------------------------------------------------------------------------------
def _list_versions(kind: Kind[Any]) -> Callable[..., None]:
    name_help = f"List only the versions of this {kind.noun}."

    def list_versions(
        name: Annotated[str | None, typer.Option("--name", metavar="NAME", help=name_help)] = None,
        archived: All = False,
        as_json: AsJson = False,
    ) -> None:
        client = connect()
        versions = client.resources(kind, name, archived=archived)
        if name and not versions:
            client.resource(kind, name)  # Raises, and names the nearest.
            if not as_json:
                print(f"all versions of {name} are archived: drumbeat {kind.name} list --name {name} --all")
                return
        _print_all(kind, versions, as_json=as_json)

    list_versions.__doc__ = kind.sentences.list
    return list_versions


def title_help(kind: Kind[Any]) -> str:
    """Returns the help of an argument NAME[:VERSION]."""
    name = kind.sentences.example.partition(":")[0]
    return f"`{name}:2`, or `{name}` or `{name}@latest` for the newest."


def _show_version(kind: Kind[Any]) -> Callable[..., None]:
    def show_version(
        title: Annotated[str, typer.Argument(metavar="NAME[:VERSION]", help=title_help(kind))], as_json: AsJson = False
    ) -> None:
        _print_one(kind, connect().resource(kind, *split_title(title)), as_json=as_json)

    show_version.__doc__ = kind.sentences.show
    return show_version


def _delete_version(kind: Kind[Any]) -> Callable[..., None]:
    def delete_version(
        title: Annotated[str, typer.Argument(metavar="NAME:VERSION", help="The version to delete.")], _yes: Yes = False
    ) -> None:
        name, version = split_title(title)
        client = connect()
        if not version and "@" not in title:
            fix = f"See them: drumbeat {kind.name} list --name {name}"
            raise SpecError(f"name the version of {name} to delete", where="NAME:VERSION", fix=fix)
        exact = version or getattr(client.resource(kind, name), "version", "")
        client.delete_resource(kind, name, exact)
        print(kind.sentences.deleted.format(name=f"{name}:{exact}"))

    delete_version.__doc__ = kind.sentences.delete
    return delete_version


def split_title(title: str) -> tuple[str, str]:
    """Returns name and version, "" = the newest, of `mine`, `mine@latest` or `mine:2`. Raises SpecError."""
    from drumbeat.jobfile.pipelines.component_file import registered_name

    named = registered_name(title if title.startswith("azureml:") else f"azureml:{title}", "NAME[:VERSION]")
    return (named.name, named.version) if named else (title, "")


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

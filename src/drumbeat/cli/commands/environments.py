"""`environment`: creates, shows, builds and deletes environments."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from drumbeat.cli.commands.archiving import All, archive_commands
from drumbeat.cli.commands.jobs import AsJson
from drumbeat.cli.commands.plan_tables import format_content
from drumbeat.cli.commands.run import submit
from drumbeat.cli.terminal.connect import connect
from drumbeat.cli.terminal.formatting import format_moment
from drumbeat.cli.terminal.help import Yes, add_command, new_family
from drumbeat.cli.terminal.json_output import print_json
from drumbeat.cli.terminal.screen import cell, fill_table, heading, make_table, pairs, show
from drumbeat.cli.terminal.untrusted_text import make_safe
from drumbeat.model.errors import SpecError
from drumbeat.model.plurals import list_first
from drumbeat.resources.environment import ENVIRONMENT

if TYPE_CHECKING:
    from rich.console import RenderableType

    from drumbeat.client import Client
    from drumbeat.model.api.environments import EnvironmentView
    from drumbeat.model.plan import PythonEnvironment

app = new_family(ENVIRONMENT.sentences.about)

Title = Annotated[
    str, typer.Argument(metavar="NAME[:VERSION]", help="`mine:2`, or `mine` or `mine@latest` for the newest.")
]
LATEST = "latest"
SHOWN = 5
"""Jobs, and alternative names of a curated environment, that are listed."""

PRINTED = "import sys; print('Python', sys.version.split()[0], 'in', sys.prefix)"
COMMAND = f'if command -v python > /dev/null; then python -c "{PRINTED}"; fi'
"""The command of a job that only builds its environment: an image may have no Python."""


def create(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="The name that jobs use.")] = None,
    file: Annotated[
        Path | None, typer.Option("--file", "-f", metavar="FILE", help="The file that describes it, as in Azure ML.")
    ] = None,
    requirements: Annotated[
        Path | None, typer.Option("--requirements", "-r", metavar="FILE", help="Without --file: a requirements.txt.")
    ] = None,
    conda: Annotated[Path | None, typer.Option("--conda", metavar="FILE", help="Without --file: a conda file.")] = None,
    sets: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Set a key of the file, like version=3. Repeatable."),
    ] = None,
) -> None:
    """Create a version of an environment from its file, a requirements.txt or a conda file.

    Content that equals the newest version is that version; different content becomes the next version. Nodes build the
    environment when a job needs it, or when you run `build`.
    """
    if file is not None:
        _require_no_others(requirements, conda)
        made = connect().create_environment(file, sets=[*(sets or []), *([f"name={name}"] if name else [])])
    else:
        made = connect().create_environment(_described(name, requirements, conda, has_sets=bool(sets)))
    print(format_created(made))


def _require_no_others(requirements: Path | None, conda: Path | None) -> None:
    for option, given in (("--requirements", requirements), ("--conda", conda)):
        if given is not None:
            raise SpecError(f"{option} goes without a file", where=option, fix=f"In the file: conda_file: {given}")


def _described(name: str | None, requirements: Path | None, conda: Path | None, *, has_sets: bool) -> dict[str, object]:
    from drumbeat.jobfile.environments.included_files import REQUIREMENTS_SUFFIXES, is_requirements

    if has_sets:
        raise SpecError("--set changes a value of a file, and none was named", where="--set", fix="Name it with -f.")
    given = requirements or conda
    if name is None or given is None or (requirements and conda):
        what = "say what the environment is: name a file with -f, or give a name and one of --requirements and --conda"
        raise SpecError(what, fix="For example: drumbeat environment create mine --requirements requirements.txt")
    if is_requirements(given.name) != (requirements is not None):
        ends = " or ".join(REQUIREMENTS_SUFFIXES)
        what = f"{given} would be read as a {'conda file' if requirements else 'requirements file'}: its name says so"
        raise SpecError(what, fix=f"The names of requirements files end in {ends}, those of conda files don't.")
    return {"name": name, "conda_file": str(given)}


def list_environments(
    curated: Annotated[
        bool,
        typer.Option("--curated", help="List the environments that drumbeat ships, with the names that match them."),
    ] = False,
    name: Annotated[
        str | None, typer.Option("--name", metavar="NAME", help="List only the versions of this environment.")
    ] = None,
    archived: All = False,
    as_json: AsJson = False,
) -> None:
    """List environments: every version that users created, or the curated ones."""
    server = connect()
    resolved = server.environments(name, curated=curated, archived=archived)
    # Raises an error with the nearest name if there is none at all.
    other = server.environment(name) if name and not resolved else None
    if as_json:
        print_json(resolved)
    elif other:
        print(_elsewhere(other))
    elif not resolved:
        print("no environments; those that drumbeat brings: drumbeat environment list --curated")
    else:
        show(*(render_curated(resolved) if curated else render_list(resolved)))


def _elsewhere(other: EnvironmentView) -> str:
    """Returns the message for a name that is in another list."""
    name = other.name
    if other.curated:
        return f"no environment {name} was created here; drumbeat brings one: drumbeat environment show {name}"
    if other.is_archived:
        return f"all versions of {name} are archived: drumbeat environment list --name {name} --all"
    return f"environment {name} isn't drumbeat's own, users made it: drumbeat environment list --name {name}"


def show_environment(title: Title, as_json: AsJson = False) -> None:
    """Show an environment: its packages, their source, and the jobs that used it."""
    resolved = connect().environment(*_named(title))
    if as_json:
        print_json(resolved)
    else:
        show(*render_environment(resolved))


def build(
    title: Title,
    compute: Annotated[
        str, typer.Option("--compute", metavar="NAME", help="The compute whose nodes build it.")
    ] = "local",
    nodes: Annotated[
        int | None, typer.Option("--nodes", metavar="N", min=1, help="Number of nodes; all usable ones by default.")
    ] = None,
    detach: Annotated[bool, typer.Option("--detach", "-d", help="Submit, print the job's name and exit.")] = False,
) -> None:
    """Build an environment on the nodes of a compute now, and follow the build.

    The build is a job like any other: it waits for nodes, its log is kept, and Ctrl-C asks whether to cancel it.
    """
    server = connect()
    job = submit(
        server,
        {
            "display_name": f"build-{title.replace(':', '-')}",
            "experiment_name": "environments",
            "command": COMMAND,
            "environment": title,
            "compute": compute,
            "resources": {"instance_count": nodes or _usable(server, compute)},
            "drumbeat": {"max_retries": 0},
        },
    )
    if detach:
        print(f"follow it: drumbeat logs -f {job.name}", file=sys.stderr)
        return
    from drumbeat.cli.follow.follow import follow

    raise typer.Exit(follow(server, job))


def _usable(server: Client, compute: str) -> int:
    """Returns the number of usable machines; an unknown compute is refused when the job is submitted."""
    own_compute = next((one for one in server.computes() if one.name == compute), None)
    return max(1, sum(not one.unusable for one in own_compute.machines_for_all)) if own_compute else 1


def delete(
    title: Annotated[str, typer.Argument(metavar="NAME:VERSION", help="The version to delete.")], _yes: Yes = False
) -> None:
    """Delete a version of an environment. Jobs that use it continue; nodes keep their built copy until it expires."""
    name, version = _named(title)
    if not version and "@" not in title:
        raise SpecError(f"which version of {name}?", fix=f"See them: drumbeat environment list --name {name}")
    server = connect()
    exact = version or server.environment(name).version
    if not exact:
        raise SpecError(f"environment {name} is drumbeat's own, and stays", fix="What users make can be deleted.")
    server.delete_environment(name, exact)
    print(f"environment {name}:{exact} deleted")


def _named(title: str) -> tuple[str, str]:
    """Returns name and version, "" = the newest. Raises SpecError."""
    from drumbeat.jobfile.environments.curated import curated
    from drumbeat.jobfile.environments.references import parse_reference

    resolved = parse_reference(title)
    if resolved.label not in ("", LATEST) and curated(resolved.name) is None:
        what = f"there is no label {resolved.label!r}; there is `{LATEST}`"
        raise SpecError(what, where=title, fix=f"Write {resolved.name}@{LATEST}, or a version: {resolved.name}:1")
    return resolved.name, resolved.version


# --- as a user reads them -----------------------------------------------------------------------------------------
def _content(one: EnvironmentView) -> str:
    if dockerfile := _dockerfile(one):
        return f"built from {dockerfile}"
    return f"image {one.image}" if one.image else format_content(one.python)


def _dockerfile(one: EnvironmentView) -> str:
    """Returns the Dockerfile that nodes build its image from, "" = they build none."""
    return str(one.document.get("dockerfile") or "") if one.image else ""


def format_created(one: EnvironmentView) -> str:
    """Formats a created environment, and how to use it."""
    lines = [f"environment {one.title} created: {make_safe(_content(one))}"]
    lines += [f"  note: {make_safe(note)}" for note in one.notes]
    lines += [f"  version {one.same_as} has the same content"] if one.same_as else []
    lines.append(f"  to use it, write in a job's file: environment: azureml:{one.title}")
    return "\n".join([*lines, f"  to have it made before a job needs it: drumbeat environment build {one.title}"])


def render_list(environments: list[EnvironmentView]) -> Iterator[RenderableType]:
    """Renders a row for each environment, and below them those that can't be built."""
    table = make_table("environment", "made of", "key", "since", ">jobs")
    rows = [
        (
            one.title + (" (archived)" if one.is_archived else ""),
            _content(one),
            one.python.key[:12] if one.python else "",
            format_moment(one.created_at) if one.created_at else "",
            len(one.jobs),
        )
        for one in environments
    ]
    yield fill_table(table, rows)
    for one in environments:
        if one.problem:
            yield cell(f"environment {one.title} can't be made: {one.problem}", "red")


def render_curated(environments: list[EnvironmentView]) -> Iterator[RenderableType]:
    """Renders the curated environments, and the names that stand for them."""
    table = make_table("environment", "means it too, with AzureML- in front or not", "made of", "what it is")
    yield fill_table(
        table, [(one.name, ", ".join(one.means), format_content(one.python), one.about) for one in environments]
    )
    yield cell("Yours comes first: an environment or an alias of the same name. Any version of these names is taken.")


def render_environment(one: EnvironmentView) -> Iterator[RenderableType]:
    """Renders everything about an environment."""
    python = one.python
    yield pairs(
        [
            ("environment", one.title + (" (archived)" if one.is_archived else "")),
            ("what it is", one.about),
            ("curated", f"means {', '.join(one.means)}, with AzureML- in front or not" if one.curated else ""),
            ("since", format_moment(one.created_at) if one.created_at else ""),
            ("image", one.image),
            ("Python", (python.python or "any") if python else ""),
            ("key", python.key if python else ""),
            ("can't be made", cell(one.problem, "red") if one.problem else ""),
            ("used by", _jobs(one.jobs)),
        ]
    )
    if python is not None:
        yield from _packages(python)
    if dockerfile := _dockerfile(one):
        yield heading(dockerfile)
        yield cell(str(one.document["files"][dockerfile]).rstrip())
    if one.notes:
        yield heading("Notes")
        yield from (cell(f"  {note}") for note in one.notes)


def _packages(made: PythonEnvironment) -> Iterator[RenderableType]:
    yield heading("With pip" + (f", from {made.source}" if made.source else ""))
    yield cell("\n".join(f"  {line}" for line in made.requirements) or "  nothing")
    if made.conda:
        channels = f", from {', '.join(made.channels)}" if made.channels else ""
        yield heading(f"With conda{channels}")
        yield cell("\n".join(f"  {line}" for line in made.conda))
    for one in made.builds:
        yield heading(f"{one.package}, built from source on the nodes")
        yield pairs(
            [
                ("variables", "\n".join(f"{name}={value}" for name, value in one.variables.items())),
                ("C++ standard", str(one.cxx_standard or "")),
                ("needs", ", ".join(one.requires)),
                ("programs", ", ".join(one.programs)),
                ("linked to", ", ".join(one.linked_to)),
            ]
        )


def _jobs(jobs: tuple[str, ...]) -> str:
    return list_first(jobs, SHOWN)


for word, command, example in (
    ("create", create, "drumbeat environment create mine --requirements requirements.txt"),
    ("list", list_environments, "drumbeat environment list --curated"),
    ("show", show_environment, "drumbeat environment show mine:2"),
    ("build", build, "drumbeat environment build mine --compute rack"),
    *archive_commands(ENVIRONMENT, _named),
    ("delete", delete, "drumbeat environment delete mine:1"),
):
    add_command(app, word, command, example)

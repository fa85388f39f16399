"""`online-endpoint`: creates addresses for models, divides their requests, shows keys, and sends a request."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from drumbeat.cli.commands.jobs import AsJson
from drumbeat.cli.commands.registration import print_note
from drumbeat.cli.terminal.connect import connect
from drumbeat.cli.terminal.formatting import format_moment
from drumbeat.cli.terminal.help import Yes, add_command, new_family
from drumbeat.cli.terminal.json_output import print_json
from drumbeat.cli.terminal.screen import fill_table, make_table, pairs, show
from drumbeat.cli.terminal.untrusted_text import make_safe
from drumbeat.model.errors import SpecError

if TYPE_CHECKING:
    from drumbeat.client import Client
    from drumbeat.model.api.endpoints import EndpointView

app = new_family("Give models an address, and divide its requests among deployments. See docs/serving.md.")

GivenName = Annotated[str | None, typer.Argument(metavar="[NAME]", help="The name of the endpoint.")]
NameOption = Annotated[str | None, typer.Option("--name", "-n", metavar="NAME", help="The same, as Azure's command.")]
File = Annotated[
    Path | None, typer.Option("--file", "-f", metavar="FILE", help="The file that describes it; see docs/serving.md.")
]
Sets = Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Set a key. Repeatable.")]
Traffic = Annotated[
    str | None,
    typer.Option("--traffic", metavar="SHARES", help='Percent of the requests: "blue=90 green=10". "" takes all away.'),
]
Mirror = Annotated[
    str | None,
    typer.Option("--mirror-traffic", metavar="SHARES", help='Percent of the requests to copy: "green=10".'),
]


def one_name(given: str | None, option: str | None) -> str:
    """Returns the name that was given in one of two ways. Raises SpecError."""
    if given and option and given != option:
        raise SpecError(f"two names were given: {given} and {option}", where="--name", fix="Give one.")
    if name := given or option:
        return name
    raise SpecError("name it", where="NAME", fix="See what there is: drumbeat online-endpoint list")


def shares_of(text: str, option: str) -> dict[str, int]:
    """Returns the percentages in `blue=90 green=10`. Raises SpecError."""
    shares: dict[str, int] = {}
    for word in re.split(r"[\s,]+", text.strip()):
        if not word:
            continue
        name, equals, number = word.partition("=")
        if not equals or not name or not number.removesuffix("%").isdecimal():
            raise SpecError(
                f"{word!r} isn't `deployment=percent`", where=option, fix=f'Write {option} "blue=90 green=10".'
            )
        if name in shares:
            raise SpecError(f"{name} is there twice", where=option, fix="Give each deployment one number.")
        shares[name] = int(number.removesuffix("%"))
    return shares


def create(
    name: GivenName = None,
    file: File = None,
    sets: Sets = None,
    option_name: NameOption = None,
    auth_mode: Annotated[
        str | None, typer.Option("--auth-mode", metavar="MODE", help="`key` (the default) or `aml_token`.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Create an endpoint from a file, or with a name alone. One that exists is changed; its keys stay."""
    from drumbeat.jobfile.reading.yaml_tree import quoted

    given = name or option_name
    options = {"name": one_name(name, option_name) if given else None, "auth_mode": auth_mode}
    written = {key: value for key, value in options.items() if value is not None}
    if file is not None:
        added = [f"{key}={quoted(value)}" for key, value in written.items()]
        made = connect().put_online_endpoint(file, sets=[*(sets or []), *added], on_note=print_note)
    else:
        if not given or sets:
            raise SpecError(
                "name a file with -f, or give a name", fix="For example: drumbeat online-endpoint create digits"
            )
        made = connect().put_online_endpoint(written)
    _print_made(made, "created", as_json=as_json)


def update(
    name: GivenName = None,
    file: File = None,
    sets: Sets = None,
    option_name: NameOption = None,
    traffic: Traffic = None,
    mirror: Mirror = None,
    as_json: AsJson = False,
) -> None:
    """Change an endpoint: by a file, by --set, or the division of its requests by --traffic."""
    from drumbeat.client.deployment_files import changed_definition, written_endpoint

    client = connect()
    if file is not None:
        written, notes = written_endpoint(file, sets or [])
        for note in notes:
            print_note(note)
        before = client.online_endpoint(name or option_name or written.name)
        made = client.put_online_endpoint(written) if before.definition != written else before
    else:
        if not sets and traffic is None and mirror is None:
            raise SpecError("say what to change", fix='For example: --traffic "blue=90 green=10"')
        before = client.online_endpoint(one_name(name, option_name))
        made = client.put_online_endpoint(changed_definition(before.definition, sets)) if sets else before
    if traffic is not None or mirror is not None:
        made = client.set_online_traffic(
            made.definition.name,
            None if traffic is None else shares_of(traffic, "--traffic"),
            None if mirror is None else shares_of(mirror, "--mirror-traffic"),
        )
    _print_made(made, "updated", as_json=as_json)


def _print_made(made: EndpointView, word: str, *, as_json: bool) -> None:
    if as_json:
        print_json(made)
        return
    print(f"endpoint {made.definition.name} {word}: {make_safe(made.scoring_uri)}")
    if made.definition.traffic:
        print(f"  traffic: {format_shares(made.definition.traffic)}")
    elif not made.deployments:
        print("  it has no deployment yet: drumbeat online-deployment create -f FILE --all-traffic")


def format_shares(shares: dict[str, int]) -> str:
    """Formats `blue 90 %, green 10 %`."""
    return ", ".join(f"{name} {share} %" for name, share in shares.items())


def list_endpoints(as_json: AsJson = False) -> None:
    """List endpoints, and how their requests are divided."""
    endpoints = connect().online_endpoints()
    if as_json:
        print_json(endpoints)
    elif not endpoints:
        print("no endpoints; make one: drumbeat online-endpoint create NAME")
    else:
        rows = [_row(one) for one in endpoints]
        show(fill_table(make_table(*rows[0]), (row.values() for row in rows)))


def _row(one: EndpointView) -> dict[str, str]:
    return {
        "endpoint": one.definition.name,
        "state": one.state,
        "traffic": format_shares(one.definition.traffic),
        "deployments": ", ".join(one.deployments),
        "address": one.scoring_uri,
    }


def show_endpoint(name: GivenName = None, option_name: NameOption = None, as_json: AsJson = False) -> None:
    """Show an endpoint: its address, its deployments, and how requests are divided."""
    one = connect().online_endpoint(one_name(name, option_name))
    if as_json:
        print_json(one)
    else:
        show(pairs((key, value) for key, value in _details(one) if value))


def _details(one: EndpointView) -> Iterator[tuple[str, str]]:
    it = one.definition
    yield "endpoint", it.name
    yield "state", f"{one.state}: {one.sentence}" if one.sentence else one.state
    yield "address", one.scoring_uri
    yield "description", it.description
    yield "auth mode", it.auth_mode
    yield "compute", it.compute
    yield "traffic", format_shares(it.traffic)
    yield "mirrored", format_shares(it.mirror_traffic)
    yield "deployments", ", ".join(one.deployments)
    yield "tags", ", ".join(f"{key}: {value}" for key, value in it.tags.items())
    yield "created", format_moment(one.created_at)


def delete(
    name: GivenName = None,
    option_name: NameOption = None,
    _yes: Yes = False,
    no_wait: Annotated[bool, typer.Option("--no-wait", help="Don't wait until its replicas have ended.")] = False,
) -> None:
    """Delete an endpoint with its deployments."""
    client, chosen = connect(), one_name(name, option_name)
    client.delete_online_endpoint(chosen)
    if not no_wait:
        client.wait_until_gone(chosen)
    print(f"endpoint {chosen} deleted" if not no_wait else f"endpoint {chosen} is being deleted")


def invoke(
    name: GivenName = None,
    option_name: NameOption = None,
    request_file: Annotated[
        Path | None,
        typer.Option("--request-file", "-r", metavar="FILE", help="The body of the request; `-` for standard input."),
    ] = None,
    data: Annotated[str | None, typer.Option("--data", "-d", metavar="TEXT", help="The body itself.")] = None,
    deployment: Annotated[
        str,
        typer.Option("--deployment-name", "--deployment", metavar="NAME", help="The deployment that answers."),
    ] = "",
    content_type: Annotated[
        str, typer.Option("--content-type", metavar="TYPE", help="The type of the body.")
    ] = "application/json",
) -> None:
    """Send a request to an endpoint with its key, and print the answer as it came."""
    if (request_file is None) == (data is None):
        fix = "Give one of --request-file FILE and --data TEXT."
        raise SpecError("a request needs a body" if data is None else "two bodies were given", fix=fix)
    chosen = one_name(name, option_name)
    body = data.encode() if data is not None else _read(request_file)
    answer = connect().invoke_online_endpoint(chosen, body, deployment=deployment, content_type=content_type)
    sys.stdout.flush()
    sys.stdout.buffer.write(answer)
    if sys.stdout.isatty() and not answer.endswith(b"\n"):
        sys.stdout.buffer.write(b"\n")
    sys.stdout.buffer.flush()


def _read(file: Path | None) -> bytes:
    if str(file) == "-":
        return sys.stdin.buffer.read()
    try:
        return Path(str(file)).read_bytes()
    except OSError as error:
        raise SpecError(f"{file} can't be read: {error.strerror}", where="--request-file") from None


def get_credentials(name: GivenName = None, option_name: NameOption = None, as_json: AsJson = False) -> None:
    """Print the keys of an endpoint, or a token that is valid for an hour."""
    client, chosen = connect(), one_name(name, option_name)
    if client.online_endpoint(chosen).definition.auth_mode == "key":
        _print_keys(client, chosen, as_json=as_json)
        return
    token = client.online_endpoint_token(chosen)
    if as_json:
        print_json(token)
    else:
        show(pairs([("token", token.access_token), ("valid until", format_moment(token.expires_at))]))


def _print_keys(client: Client, name: str, *, as_json: bool) -> None:
    keys = client.online_endpoint_keys(name)
    if as_json:
        print_json(keys)
    else:
        show(pairs([("primary", keys.primary), ("secondary", keys.secondary)]))


def regenerate_keys(
    name: GivenName = None,
    option_name: NameOption = None,
    key_type: Annotated[
        Literal["primary", "secondary"], typer.Option("--key-type", help="The key to replace.")
    ] = "primary",
) -> None:
    """Replace one of the two keys. The other one stays valid, so clients can change over without a gap."""
    chosen = one_name(name, option_name)
    connect().renew_online_endpoint_key(chosen, key_type)
    print(f"the {key_type} key of {chosen} is new; see it: drumbeat online-endpoint get-credentials {chosen}")


for _name, _command, _example in (
    ("create", create, "drumbeat online-endpoint create -f endpoint.yml"),
    ("update", update, 'drumbeat online-endpoint update digits --traffic "blue=90 green=10"'),
    ("show", show_endpoint, "drumbeat online-endpoint show digits"),
    ("list", list_endpoints, "drumbeat online-endpoint list"),
    ("delete", delete, "drumbeat online-endpoint delete digits"),
    ("invoke", invoke, "drumbeat online-endpoint invoke digits --request-file request.json"),
    ("get-credentials", get_credentials, "drumbeat online-endpoint get-credentials digits"),
    ("regenerate-keys", regenerate_keys, "drumbeat online-endpoint regenerate-keys digits --key-type secondary"),
):
    add_command(app, _name, _command, _example)

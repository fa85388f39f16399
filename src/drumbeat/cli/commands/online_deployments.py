"""`online-deployment`: puts a model behind an endpoint, follows it until it answers, scales it, shows what it wrote."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from drumbeat.cli.commands.download import progress
from drumbeat.cli.commands.jobs import AsJson
from drumbeat.cli.commands.online_endpoints import one_name
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
    from drumbeat.model.api.endpoints import DeploymentView

app = new_family("Put models behind endpoints, scale them, and see what their replicas write. See docs/serving.md.")

GivenName = Annotated[str | None, typer.Argument(metavar="[NAME]", help="The name of the deployment.")]
NameOption = Annotated[str | None, typer.Option("--name", "-n", metavar="NAME", help="The same, as Azure's command.")]
Endpoint = Annotated[
    str | None, typer.Option("--endpoint", "--endpoint-name", "-e", metavar="ENDPOINT", help="Its endpoint.")
]
File = Annotated[
    Path | None, typer.Option("--file", "-f", metavar="FILE", help="The file that describes it; see docs/serving.md.")
]
Sets = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Set a key, like instance_count=3. Repeatable.")
]
AllTraffic = Annotated[
    bool, typer.Option("--all-traffic", help="Give it all requests of the endpoint once it is ready.")
]
NoWait = Annotated[bool, typer.Option("--no-wait", help="Don't wait until it is ready.")]


def create(
    name: GivenName = None,
    file: File = None,
    endpoint: Endpoint = None,
    sets: Sets = None,
    option_name: NameOption = None,
    all_traffic: AllTraffic = False,
    no_wait: NoWait = False,
    as_json: AsJson = False,
) -> None:
    """Create a deployment from a file, and wait until its replicas answer.

    Code, a model's local files and an environment's files are sent to the server. One that exists is changed without a
    gap: its replicas are replaced one after the other.
    """
    if file is None:
        raise SpecError("name the file that describes the deployment", where="--file", fix="Write -f deployment.yml.")
    _require_wait(all_traffic, no_wait)
    _put_file(connect(), file, _sets(name or option_name, endpoint, sets), all_traffic, no_wait, as_json)


def update(
    name: GivenName = None,
    file: File = None,
    endpoint: Endpoint = None,
    sets: Sets = None,
    option_name: NameOption = None,
    all_traffic: AllTraffic = False,
    no_wait: NoWait = False,
    as_json: AsJson = False,
) -> None:
    """Change a deployment by its file or by --set, and wait until the new replicas answer.

    The old replicas serve until then; if the new ones never answer, they go on.
    """
    from drumbeat.client.deployment_files import changed_definition, written_deployment

    _require_wait(all_traffic, no_wait)
    client = connect()
    if file is not None:
        given = _sets(name or option_name, endpoint, sets)
        keys = written_deployment(file, given).keys
        client.online_deployment(keys.endpoint_name, keys.name)
        _put_file(client, file, given, all_traffic, no_wait, as_json)
        return
    if not sets:
        raise SpecError("say what to change", fix="Name its file with -f, or set a key: --set instance_count=3")
    before = client.online_deployment(_endpoint(endpoint), one_name(name, option_name))
    made = client.put_online_deployment(changed_definition(before.definition, sets))
    _follow(client, made, all_traffic, no_wait, as_json)


def _require_wait(all_traffic: bool, no_wait: bool) -> None:
    if all_traffic and no_wait:
        what = "traffic is given to a deployment that is ready, and --no-wait doesn't wait for that"
        raise SpecError(what, fix='Give it later: drumbeat online-endpoint update NAME --traffic "blue=100"')


def _sets(name: str | None, endpoint: str | None, sets: list[str] | None) -> list[str]:
    from drumbeat.jobfile.reading.yaml_tree import quoted

    options = {"name": name, "endpoint_name": endpoint}
    return [*(sets or []), *(f"{key}={quoted(value)}" for key, value in options.items() if value is not None)]


def _put_file(client: Client, file: Path, sets: list[str], all_traffic: bool, no_wait: bool, as_json: bool) -> None:
    with progress() as advance:
        made = client.put_online_deployment(file, sets=sets, on_bytes=advance, on_note=print_note)
    for note in made.notes:
        print_note(note)
    _follow(client, made, all_traffic, no_wait, as_json)


def _follow(client: Client, made: DeploymentView, all_traffic: bool, no_wait: bool, as_json: bool) -> None:
    """Prints how far a deployment is until it is ready; ends with 1 and its sentence if it fails."""
    name, endpoint = made.definition.name, made.definition.endpoint_name
    if not no_wait:
        made = client.wait_for_online_deployment(endpoint, name, on_change=_print_progress)
    if made.state == "failed":
        print(f"error: deployment {name} isn't ready: {make_safe(made.sentence)}", file=sys.stderr)
        print(f"  → See what it wrote: drumbeat online-deployment get-logs {name} -e {endpoint}", file=sys.stderr)
        raise typer.Exit(1)
    if all_traffic:
        client.set_online_traffic(endpoint, {name: 100})
    if as_json:
        print_json(made)
    elif not no_wait:
        _print_ready(client, name, endpoint)


def _print_progress(now: DeploymentView) -> None:
    sentence = f": {make_safe(now.sentence)}" if now.sentence else ""
    name = now.definition.name
    print(f"deployment {name} is {now.state}, {now.ready} of {now.wanted} replicas answer{sentence}", file=sys.stderr)


def _print_ready(client: Client, name: str, endpoint: str) -> None:
    owner = client.online_endpoint(endpoint)
    share = owner.definition.traffic.get(name, 0)
    print(f"deployment {name} is ready: {make_safe(owner.scoring_uri)}, {share} % of the requests")
    if not share:
        print(f'  give it requests: drumbeat online-endpoint update {endpoint} --traffic "{name}=100"')
    print(f"  try it: drumbeat online-endpoint invoke {endpoint} --deployment-name {name} --request-file FILE")


def _endpoint(endpoint: str | None) -> str:
    if endpoint:
        return endpoint
    raise SpecError("name the endpoint", where="--endpoint", fix="See them: drumbeat online-endpoint list")


def show_deployment(
    name: GivenName = None, endpoint: Endpoint = None, option_name: NameOption = None, as_json: AsJson = False
) -> None:
    """Show a deployment: how far it is, its replicas, its model, its limits."""
    one = connect().online_deployment(_endpoint(endpoint), one_name(name, option_name))
    if as_json:
        print_json(one)
    else:
        show(pairs((key, value) for key, value in _details(one) if value))


def _details(one: DeploymentView) -> Iterator[tuple[str, str]]:
    it = one.definition
    limits, scaling = it.request_settings, it.scale_settings
    yield "deployment", f"{it.name} of {it.endpoint_name}"
    yield "state", f"{one.state}: {one.sentence}" if one.sentence else one.state
    yield "replicas", f"{one.ready} of {one.wanted} answer"
    if scaling.type == "target_utilization":
        target = scaling.target_utilization_percentage
        yield "scaling", f"{scaling.min_instances} to {scaling.max_instances}, for {target} % utilization"
    yield "description", it.description
    yield "model", it.model.path if it.model else ""
    yield "script", it.scoring_script
    yield "code", f"snapshot {it.code}" if it.code else ""
    yield "environment", it.environment if isinstance(it.environment, str) else "of its own" if it.environment else ""
    yield "instance type", it.instance_type
    yield "compute", it.drumbeat.compute
    concurrency = limits.max_concurrent_requests_per_instance
    yield "requests", f"{concurrency} at once in a replica, {limits.request_timeout_ms} ms at most"
    yield "generation", str(one.generation)
    yield "job", one.job
    yield "tags", ", ".join(f"{key}: {value}" for key, value in it.tags.items())
    yield "created", format_moment(one.created_at)
    for note in one.notes:
        yield "note", note


def list_deployments(endpoint: Endpoint = None, as_json: AsJson = False) -> None:
    """List the deployments of an endpoint."""
    chosen = _endpoint(endpoint)
    deployments = connect().online_deployments(chosen)
    if as_json:
        print_json(deployments)
    elif not deployments:
        print(f"{chosen} has no deployments; make one: drumbeat online-deployment create -f FILE")
    else:
        rows = [_row(one) for one in deployments]
        show(fill_table(make_table(*rows[0]), (row.values() for row in rows)))


def _row(one: DeploymentView) -> dict[str, str]:
    return {
        "deployment": one.definition.name,
        "state": one.state,
        "replicas": f"{one.ready} of {one.wanted}",
        "model": one.definition.model.path if one.definition.model else "",
        "sentence": one.sentence,
    }


def delete(
    name: GivenName = None,
    endpoint: Endpoint = None,
    option_name: NameOption = None,
    _yes: Yes = False,
    no_wait: Annotated[bool, typer.Option("--no-wait", help="Don't wait until its replicas have ended.")] = False,
) -> None:
    """Delete a deployment. It must have no traffic."""
    client, chosen, owner = connect(), one_name(name, option_name), _endpoint(endpoint)
    client.delete_online_deployment(owner, chosen)
    if not no_wait:
        client.wait_until_gone(owner, chosen)
    print(f"deployment {chosen} deleted" if not no_wait else f"deployment {chosen} is being deleted")


def get_logs(
    name: GivenName = None,
    endpoint: Endpoint = None,
    option_name: NameOption = None,
    lines: Annotated[
        int, typer.Option("--lines", "-l", metavar="N", min=1, max=100_000, help="Of each replica, the last ones.")
    ] = 5000,
) -> None:
    """Print the last lines that the replicas wrote."""
    text = connect().online_deployment_logs(_endpoint(endpoint), one_name(name, option_name), lines=lines)
    for line in text.splitlines():
        print(make_safe(line))


def scale(
    instances: Annotated[
        int, typer.Option("--instances", "--instance-count", metavar="N", min=1, help="Number of replicas.")
    ],
    name: GivenName = None,
    endpoint: Endpoint = None,
    option_name: NameOption = None,
    no_wait: NoWait = False,
    as_json: AsJson = False,
) -> None:
    """Set the number of replicas. Those that stay go on answering."""
    client = connect()
    made = client.scale_online_deployment(_endpoint(endpoint), one_name(name, option_name), instances)
    _follow(client, made, False, no_wait, as_json)


for _name, _command, _example in (
    ("create", create, "drumbeat online-deployment create -f blue.yml --all-traffic"),
    ("update", update, "drumbeat online-deployment update -f blue.yml"),
    ("show", show_deployment, "drumbeat online-deployment show blue -e digits"),
    ("list", list_deployments, "drumbeat online-deployment list -e digits"),
    ("delete", delete, "drumbeat online-deployment delete blue -e digits"),
    ("get-logs", get_logs, "drumbeat online-deployment get-logs blue -e digits --lines 100"),
    ("scale", scale, "drumbeat online-deployment scale blue -e digits --instances 3"),
):
    add_command(app, _name, _command, _example)

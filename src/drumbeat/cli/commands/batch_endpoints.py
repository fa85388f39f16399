"""`batch-endpoint` and `batch-deployment`: names under which deployments score data, and their jobs."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from drumbeat.cli.commands.job_tables import job_table
from drumbeat.cli.commands.resource_family import Sets, resource_family
from drumbeat.cli.terminal.connect import connect
from drumbeat.cli.terminal.help import AsJson, Yes
from drumbeat.cli.terminal.json_output import print_json
from drumbeat.cli.terminal.screen import fill_table, make_console, make_table, show
from drumbeat.client.batch_endpoints import BatchEndpoints
from drumbeat.model.errors import SpecError
from drumbeat.resources.batch import BATCH_DEPLOYMENT, BATCH_ENDPOINT

if TYPE_CHECKING:
    from drumbeat.model.api.jobs import JobView

EndpointOf = Annotated[str, typer.Option("--endpoint-name", "-e", metavar="ENDPOINT", help="The endpoint.")]
EndpointArgument = Annotated[str, typer.Argument(metavar="ENDPOINT", help="The endpoint's name.")]
DeploymentArgument = Annotated[str, typer.Argument(metavar="DEPLOYMENT", help="The deployment's name.")]
FileOption = Annotated[Path, typer.Option("--file", "-f", metavar="FILE", help="The file that describes it.")]
OUTPUT_FILE = "output_file_name"


def update_endpoint(name: EndpointArgument, sets: Sets = None) -> None:
    """Change keys of a batch endpoint, such as its default deployment."""
    BatchEndpoints(connect()).update(BATCH_ENDPOINT, name, sets or [])
    print(f"batch endpoint {name} is updated")


def delete_endpoint(name: EndpointArgument, _yes: Yes = False) -> None:
    """Delete a batch endpoint and its deployments. Its jobs continue."""
    BatchEndpoints(connect()).delete_endpoint(name)
    print(f"batch endpoint {name} is deleted")


def invoke(
    endpoint: EndpointArgument,
    data: Annotated[
        str | None, typer.Option("--input", metavar="PATH", help="The data: a path or a reference.")
    ] = None,
    inputs: Annotated[
        Path | None, typer.Option("--inputs", "-f", metavar="FILE", help="A file with `inputs:`, by name.")
    ] = None,
    input_type: Annotated[
        str | None,
        typer.Option("--input-type", metavar="TYPE", help="uri_folder or uri_file; as the path is."),
    ] = None,
    deployment: Annotated[
        str,
        typer.Option("--deployment-name", "-d", metavar="NAME", help="The deployment; the default one if not given."),
    ] = "",
    sets: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help=f"`{OUTPUT_FILE}=scores.csv`.")
    ] = None,
    output_path: Annotated[str, typer.Option("--output-path", metavar="PATH", help="Where the output goes.")] = "",
    job_name: Annotated[str, typer.Option("--job-name", metavar="NAME", help="Name of the job.")] = "",
    instance_count: Annotated[
        int, typer.Option("--instance-count", "-c", metavar="N", min=0, help="Nodes, instead of the deployment's.")
    ] = 0,
    mini_batch_size: Annotated[
        int, typer.Option("--mini-batch-size", "-m", metavar="N", min=0, help="Files of a mini-batch, instead.")
    ] = 0,
    as_json: AsJson = False,
) -> None:
    """Start the job that scores data by a batch endpoint, and print its name."""
    from drumbeat.jobfile.batch.scoring_jobs import BatchInvocation

    asked = BatchInvocation(
        deployment, _inputs(data, inputs, input_type), output_path, _file_name(sets or []), job_name, instance_count,
        mini_batch_size,
    )  # fmt: skip
    job = BatchEndpoints(connect()).invoke(endpoint, asked)
    if as_json:
        print_json(job)
    else:
        print(job.name)


def _inputs(data: str | None, file: Path | None, kind: str | None) -> dict[str, Any]:
    if file is not None:
        return _inputs_in(file)
    if data is None:
        raise SpecError("no data to score", where="--input", fix="Give --input PATH, or --inputs FILE.")
    return {"data": {"type": kind or ("uri_file" if Path(data).is_file() else "uri_folder"), "path": data}}


def _inputs_in(file: Path) -> dict[str, Any]:
    from drumbeat.jobfile.reading.loader import read_text
    from drumbeat.jobfile.reading.yaml_tree import parse, plain

    document: object = plain(parse(read_text(file), str(file), "`inputs:`"), str(file))
    table = cast("dict[str, Any]", document).get("inputs", document) if isinstance(document, dict) else None
    if not isinstance(table, dict):
        raise SpecError("expected a mapping `inputs:`", where=str(file), fix="Write each input by its name.")
    given = cast("dict[str, Any]", table)
    return {name: _beside(value, file.absolute().parent) for name, value in given.items()}


def _beside(value: Any, base: Path) -> Any:
    """An input whose local path counts from the folder of its file."""
    from drumbeat.jobfile.data.paths import local_path

    if not isinstance(value, dict):
        return value
    table = cast("dict[str, Any]", value)
    path = table.get("path")
    local = local_path(path) if isinstance(path, str) else None
    return table if local is None else {**table, "path": str((base / Path(local).expanduser()).absolute())}


def _file_name(sets: list[str]) -> str:
    name = ""
    for one in sets:
        key, mark, name = one.partition("=")
        if key != OUTPUT_FILE or not mark or not name or "/" in name:
            raise SpecError(
                f"{one!r} can't be set", where="--set", fix=f"Write {OUTPUT_FILE}=NAME, a name without `/`."
            )
    return name


def list_endpoint_jobs(endpoint: EndpointArgument, as_json: AsJson = False) -> None:
    """List the jobs of a batch endpoint, newest first."""
    client = connect()
    client.resource(BATCH_ENDPOINT, endpoint)
    _print_jobs(BatchEndpoints(client).jobs(endpoint), as_json=as_json)


def _print_jobs(jobs: list[JobView], *, as_json: bool) -> None:
    if as_json:
        print_json(jobs)
    elif not jobs:
        print("no jobs")
    else:
        show(job_table(jobs, datetime.now(UTC), make_console().width))


# --- deployments --------------------------------------------------------------------------------------------------
def create_deployment(
    file: FileOption,
    sets: Sets = None,
    default: Annotated[
        bool, typer.Option("--set-default", help="Make it the one that invocations run which name none.")
    ] = False,
) -> None:
    """Create a deployment of a batch endpoint, or replace the one of its name, with its code, environment and model."""
    client = connect()
    made = BatchEndpoints(client).create_deployment(file, sets=sets or [])
    print(f"batch deployment {made.name} of {made.endpoint} is there: {made.component}")
    if default:
        BatchEndpoints(client).set_default(made)
        print(f"  it is the default of {made.endpoint}")
    print(f"  to score: drumbeat batch-endpoint invoke {made.endpoint} --deployment-name {made.name} --input PATH")


def list_deployments(
    endpoint: Annotated[
        str, typer.Option("--endpoint-name", "-e", metavar="ENDPOINT", help="Only those of this endpoint.")
    ] = "",
    as_json: AsJson = False,
) -> None:
    """List the deployments of batch endpoints."""
    client = connect()
    if endpoint:
        client.resource(BATCH_ENDPOINT, endpoint)
    deployments = BatchEndpoints(client).deployments(endpoint)
    if as_json:
        print_json(deployments)
    elif not deployments:
        print(BATCH_DEPLOYMENT.sentences.empty)
    else:
        rows = [BATCH_DEPLOYMENT.sentences.columns(one) for one in deployments]
        show(fill_table(make_table(*rows[0]), (row.values() for row in rows)))


def show_deployment(name: DeploymentArgument, endpoint: EndpointOf, as_json: AsJson = False) -> None:
    """Show a deployment of a batch endpoint."""
    from drumbeat.cli.terminal.screen import pairs

    one = connect().resource(BATCH_DEPLOYMENT, f"{endpoint}.{name}")
    if as_json:
        print_json(one)
    else:
        show(pairs(BATCH_DEPLOYMENT.sentences.details(one).items()))


def update_deployment(name: DeploymentArgument, endpoint: EndpointOf, sets: Sets = None) -> None:
    """Change how the next jobs of a deployment run: compute, instance_count, output_file_name, settings.KEY."""
    BatchEndpoints(connect()).update(BATCH_DEPLOYMENT, f"{endpoint}.{name}", sets or [])
    print(f"batch deployment {name} of {endpoint} is updated")


def delete_deployment(name: DeploymentArgument, endpoint: EndpointOf, _yes: Yes = False) -> None:
    """Delete a deployment of a batch endpoint. Its jobs continue."""
    BatchEndpoints(connect()).delete_deployment(endpoint, name)
    print(f"batch deployment {name} of {endpoint} is deleted")


def list_deployment_jobs(name: DeploymentArgument, endpoint: EndpointOf, as_json: AsJson = False) -> None:
    """List the jobs of a deployment, newest first."""
    client = connect()
    client.resource(BATCH_DEPLOYMENT, f"{endpoint}.{name}")
    _print_jobs(BatchEndpoints(client).jobs(endpoint, name), as_json=as_json)


endpoint = resource_family(
    BATCH_ENDPOINT,
    ("update", update_endpoint, "drumbeat batch-endpoint update digits --set defaults.deployment_name=green"),
    ("invoke", invoke, "drumbeat batch-endpoint invoke digits --input ./pictures"),
    ("list-jobs", list_endpoint_jobs, "drumbeat batch-endpoint list-jobs digits"),
    ("delete", delete_endpoint, "drumbeat batch-endpoint delete digits"),
)
deployment = resource_family(
    BATCH_DEPLOYMENT,
    ("create", create_deployment, "drumbeat batch-deployment create -f deployment.yml --set-default"),
    ("list", list_deployments, "drumbeat batch-deployment list --endpoint-name digits"),
    ("show", show_deployment, "drumbeat batch-deployment show blue --endpoint-name digits"),
    ("update", update_deployment, "drumbeat batch-deployment update blue -e digits --set instance_count=2"),
    ("list-jobs", list_deployment_jobs, "drumbeat batch-deployment list-jobs blue --endpoint-name digits"),
    ("delete", delete_deployment, "drumbeat batch-deployment delete blue --endpoint-name digits"),
)

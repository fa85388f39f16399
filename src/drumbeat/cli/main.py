"""The entry of `drumbeat`: its commands, and what becomes of every failure."""

from __future__ import annotations

import signal
import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.exceptions import TyperException

from drumbeat._version import __version__
from drumbeat.cli.commands import (
    aliases,
    bench,
    components,
    computes,
    data,
    datastores,
    download,
    environments,
    experiments,
    init,
    jobs,
    ledger,
    logs,
    metrics,
    notices,
    quotas,
    registries,
    rehearse,
    run,
    servers,
    sessions,
    space,
    stacks,
    sweeps,
    tokens,
    top,
    ui,
)
from drumbeat.cli.job_options.command_line import JobCommand
from drumbeat.cli.terminal import standard_streams
from drumbeat.cli.terminal.connect import OPEN
from drumbeat.cli.terminal.failures import report
from drumbeat.cli.terminal.help import add_command

ABOUT = "Run distributed training jobs on your own machines, from one job file or one command."


class Commands(TyperGroup):
    """The commands; an error that leaves one is printed as a person reads it, and becomes the exit code."""

    def invoke(self, ctx: Any) -> Any:
        """Runs the command."""
        try:
            return super().invoke(ctx)
        except (TyperException, typer.Exit, typer.Abort):
            raise
        except Exception as error:  # noqa: BLE001 - the outer edge: whatever it is, a person reads a sentence
            raise typer.Exit(report(error, debug=bool(ctx.params.get("debug")))) from None
        finally:
            OPEN.close()


app = typer.Typer(cls=Commands, help=ABOUT, no_args_is_help=True, pretty_exceptions_enable=False)

for name, command, example in (
    ("plan", run.plan, "drumbeat plan job.yml --set inputs.epochs=3"),
    ("run", run.run, "drumbeat run job.yml --set inputs.epochs=3"),
    ("init", init.init, "drumbeat init train.py"),
    ("list", jobs.list_jobs, "drumbeat list --state running"),
    ("show", jobs.show_job, "drumbeat show @last"),
    ("metrics", metrics.metrics, "drumbeat metrics @last loss accuracy"),
    ("compare", metrics.compare, "drumbeat compare cifar-7f3a cifar-81bc"),
    ("logs", logs.logs, "drumbeat logs -f @last --rank 0"),
    ("stacks", stacks.stacks, "drumbeat stacks @last --rank 3"),
    ("exec", sessions.exec_, "drumbeat exec @last --rank 3 -- nvidia-smi"),
    ("ssh", sessions.ssh, "drumbeat ssh @last"),
    ("open", sessions.open_service, "drumbeat open @last tensorboard"),
    ("cancel", jobs.cancel, "drumbeat cancel @last --wait"),
    ("wait", jobs.wait, "drumbeat wait @last --timeout 3600"),
    ("download", download.download, "drumbeat download @last --to results"),
    ("archive", jobs.archive, "drumbeat archive cifar-7f3a"),
    ("restore", jobs.restore, "drumbeat restore cifar-7f3a"),
    ("delete", space.delete, "drumbeat delete cifar-7f3a"),
    ("prune", space.prune, "drumbeat prune --older-than 30d --keep-outputs"),
    ("usage", space.usage, "drumbeat usage"),
    ("ledger", ledger.ledger, "drumbeat ledger --by experiment --since 7d"),
    ("top", top.top, "drumbeat top"),
    ("ui", ui.ui, "drumbeat ui --print"),
    ("rehearse", rehearse.rehearse, "drumbeat rehearse job.yml --set inputs.epochs=1 --faults kill,stop --runs 5"),
    ("bench", bench.bench, "drumbeat bench --model resnet50 --ranks 1,2,4 --network 200mbit,1gbit"),
):
    add_command(
        app,
        name,
        command,
        example,
        takes_more=name == "download",
        cls=JobCommand if name in ("plan", "run") else None,
    )
app.add_typer(aliases.app, name="alias")
app.add_typer(servers.server_app, name="server")
app.add_typer(computes.app, name="compute")
app.add_typer(data.app, name="data")
app.add_typer(datastores.app, name="datastore")
app.add_typer(environments.app, name="environment")
app.add_typer(experiments.app, name="experiment")
app.add_typer(components.app, name="component")
app.add_typer(notices.app, name="notice")
app.add_typer(registries.app, name="registry")
app.add_typer(sweeps.app, name="sweep")
app.add_typer(tokens.app, name="token")
app.add_typer(quotas.app, name="quota")


@app.command("version", epilog="Example: drumbeat version")
def version() -> None:
    """Print the version."""
    print(f"drumbeat {__version__}")


def _print_version(is_asked: bool) -> None:
    if is_asked:
        version()
        raise typer.Exit


@app.callback()
def options(
    debug: Annotated[bool, typer.Option("--debug", help="Print the traceback of an error.")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Options of every command; what they do is done elsewhere."""


def main() -> None:
    """Runs the command line; never shows a traceback of its own accord."""
    standard_streams.prepare()
    try:
        app(prog_name="drumbeat")
    except KeyboardInterrupt:  # Before a command had begun, which has words of its own for it.
        sys.exit(128 + signal.SIGINT)
    finally:
        standard_streams.flush_quietly()

"""The entry point of `drumbeat`: its commands, and the handling of every failure."""

from __future__ import annotations

import signal
import sys
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer
from typer.core import TyperGroup
from typer.exceptions import TyperException

from drumbeat.cli.command_table import LateCommands
from drumbeat.cli.commands.version import version as print_version
from drumbeat.cli.terminal import standard_streams
from drumbeat.cli.terminal.connect import OPEN
from drumbeat.cli.terminal.failures import report

if TYPE_CHECKING:
    from types import ModuleType

ABOUT = "Run distributed training jobs on your own machines, from one job file or one command."


class Commands(TyperGroup):
    """The commands; an error that leaves one is printed as a user reads it, and becomes the exit code."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = LateCommands()

    def list_commands(self, ctx: Any) -> list[str]:
        """Returns the names of all commands."""
        del ctx
        return list(self.commands)

    def invoke(self, ctx: Any) -> Any:
        """Runs the command."""
        try:
            return super().invoke(ctx)
        except (TyperException, typer.Exit, typer.Abort):
            raise
        except Exception as error:  # noqa: BLE001 - the outer edge: whatever it is, a user reads a sentence
            raise typer.Exit(report(error, debug=bool(ctx.params.get("debug")))) from None
        finally:
            OPEN.close()


app = typer.Typer(cls=Commands, help=ABOUT, no_args_is_help=True, pretty_exceptions_enable=False)


def _print_version(is_asked: bool) -> None:
    if is_asked:
        print_version()
        raise typer.Exit


@app.callback()
def options(
    debug: Annotated[bool, typer.Option("--debug", help="Print the traceback of an error.")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Declares the options of every command; callbacks and `main` handle them."""


def main() -> None:
    """Runs the command line; shows tracebacks only with --debug."""
    standard_streams.prepare()
    # httpx goes without its command line, which imports rich, click and pygments: a third of the start of `run`.
    sys.modules.setdefault("httpx._main", cast("ModuleType", None))
    try:
        app(prog_name="drumbeat")
    except KeyboardInterrupt:  # Before a command had begun: commands print messages of their own.
        sys.exit(128 + signal.SIGINT)
    finally:
        standard_streams.flush_quietly()

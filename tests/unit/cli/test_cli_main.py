"""The command line as a whole."""

import inspect

import pytest
import typer

from drumbeat.cli.command_table import COMMANDS, GROUPS, LateCommands
from drumbeat.cli.commands.registration import with_options
from drumbeat.cli.main import app
from drumbeat.cli.terminal.styles import ink_for
from drumbeat.client import Client
from drumbeat.model.errors import SpecError
from tests.unit.cli.fake_server import FakeServer

FAKED = [name for name, one in vars(FakeServer).items() if inspect.isfunction(one) and not name.startswith("_")]


def test_every_command_has_help_and_an_example():
    bare: list[str] = []

    def look(command: typer.core.TyperCommand | typer.core.TyperGroup, name: str) -> None:
        if isinstance(command, typer.core.TyperGroup):
            for each in command.commands.values():
                look(each, f"{name} {each.name}")  # pyright: ignore[reportArgumentType]
        elif not command.help or f"Example: {name} ".strip() not in (command.epilog or ""):
            bare.append(name)

    look(typer.main.get_command(app), "drumbeat")  # pyright: ignore[reportArgumentType]
    assert bare == []


class Terminal:
    """Standard output that is one."""

    def isatty(self) -> bool:
        return True


def test_no_color_is_respected():
    terminal = Terminal()
    assert ink_for(terminal, {"TERM": "xterm"}).is_on  # pyright: ignore[reportArgumentType]
    assert not ink_for(terminal, {"TERM": "xterm", "NO_COLOR": "1"}).is_on  # pyright: ignore[reportArgumentType]
    assert not ink_for(terminal, {"TERM": "dumb"}).is_on  # pyright: ignore[reportArgumentType]


def test_every_command_is_in_one_group_of_the_help():
    grouped = [name for names in GROUPS.values() for name in names]
    assert sorted(grouped) == sorted(COMMANDS)
    assert [*LateCommands()] == grouped
    assert LateCommands()["run"].rich_help_panel == "Run jobs"
    assert LateCommands()["data"].rich_help_panel == "Data and what jobs share"


def test_advice_on_keys_names_options_where_there_is_no_file():
    told = with_options(SpecError("this is a file, and the type is mltable", where="d", fix="Write `type: uri_file`."))
    assert str(told) == "d: this is a file, and the type is mltable. Write `--type uri_file`."


@pytest.mark.parametrize("name", FAKED)
def test_method_of_the_fake_server_takes_arguments_of_the_client(name: str):
    """Commands take a Client; tests aren't type-checked, so that the fake's methods could be others."""
    faked, real = (inspect.signature(getattr(one, name)).parameters for one in (FakeServer, Client))
    named = {key for key, one in faked.items() if one.kind is not inspect.Parameter.VAR_KEYWORD}
    assert named <= {*real}

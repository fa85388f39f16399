"""The command line as a whole."""

import typer

from drumbeat.cli.main import app
from drumbeat.cli.terminal.styles import ink_for


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

"""`ui`: opens the server's web page."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from drumbeat.cli.terminal.connect import connect

DISPLAYS = ("DISPLAY", "WAYLAND_DISPLAY", "WSL_DISTRO_NAME")
"""Variables that say that a browser has a screen; without one, a browser of the terminal might open."""


def ui(
    print_: Annotated[bool, typer.Option("--print", help="Only print the link; open no browser.")] = False,
) -> None:
    """Open the web page, and start the server if needed. The link works once, within ten minutes."""
    link = connect().page_link()
    print(link)
    if print_ or not any(os.environ.get(name) for name in DISPLAYS):
        return
    import webbrowser

    webbrowser.open(link)

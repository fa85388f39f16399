"""`notice`: where the server reports the ends of jobs is made, listed, tried and deleted."""

from __future__ import annotations

from typing import Annotated

import typer

from drumbeat.cli.commands.resource_family import resource_family
from drumbeat.cli.terminal.connect import connect
from drumbeat.resources.notice_target import NOTICE_TARGET


def try_target(name: Annotated[str, typer.Argument(metavar="NAME", help="The notice target's name.")]) -> None:
    """Deliver a test notice to a target now."""
    target = connect().test_notice_target(name)
    print(f"a test notice was delivered to {target.name} ({target.place})")


app = resource_family(NOTICE_TARGET, ("test", try_target, "drumbeat notice test slack"))

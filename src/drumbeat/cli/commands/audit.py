"""`drumbeat audit`: who changed what on the server, and what was refused."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import typer

from drumbeat.cli.terminal.age import parse_age
from drumbeat.cli.terminal.connect import connect
from drumbeat.cli.terminal.formatting import format_moment
from drumbeat.cli.terminal.json_output import print_json

REFUSED = 400

Since = Annotated[str, typer.Option("--since", metavar="AGE", help="Leave out what is older: 30d, 12h.")]
Person = Annotated[str, typer.Option("--person", metavar="PERSON", help="Only what this user asked for.")]
Refused = Annotated[bool, typer.Option("--refused", help="Only what was refused or failed.")]
Others = Annotated[bool, typer.Option("--others", help="Only what changed jobs of other users.")]
AsJson = Annotated[bool, typer.Option("--json", help="Everything as JSON.")]


def audit(
    since: Since = "7d", person: Person = "", refused: Refused = False, others: Others = False, as_json: AsJson = False
) -> None:
    """Show who changed what on the server, refused requests included. For owners."""
    lines = [
        one
        for one in connect().audit(datetime.now(UTC) - parse_age(since, "--since"))
        if (not person or one.who == person) and (not refused or one.status >= REFUSED) and (not others or one.of)
    ]
    if as_json:
        print_json(lines)
        return
    if not lines:
        print("nothing was changed or refused in this time")
        return
    for one in lines:
        of = f" (of {one.of})" if one.of else ""
        print(f"{format_moment(one.at)}  {one.who} ({one.role})  {one.method} {one.path} {one.status}{of}")

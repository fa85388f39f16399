"""`token`: manages who may use the server besides its owner, and in which role."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from drumbeat.cli.terminal.connect import connect
from drumbeat.cli.terminal.help import Yes, new_family
from drumbeat.model.principal import Role

app = new_family("Give users tokens of their own for this server.")

UserArgument = Annotated[str, typer.Argument(metavar="PERSON", help="The user's name, such as ada or ada@example.org.")]
RoleOption = Annotated[
    Role, typer.Option("--role", metavar="ROLE", help="owner, contributor or reader. A reader changes nothing.")
]


@app.command("list", epilog="Example: drumbeat token list")
def list_tokens() -> None:
    """List the users who have tokens, with their roles."""
    from drumbeat.cli.terminal.formatting import format_moment
    from drumbeat.cli.terminal.screen import fill_table, make_table, show

    tokens = connect().tokens()
    if not tokens:
        print("no tokens besides the one of the server's home; create one: drumbeat token create ada")
        return
    rows = [(one.person, one.role, format_moment(one.created_at)) for one in tokens]
    show(fill_table(make_table("person", "role", "created"), rows))


@app.command("create", epilog="Example: drumbeat token create ada --role reader")
def create(person: UserArgument, role: RoleOption = Role.CONTRIBUTOR) -> None:
    """Create a user's token and print it. It is shown only once."""
    token = connect().create_token(person, role)
    print(token.token)
    print(f"{person} is {_article(role)} {role}; the token goes into DRUMBEAT_TOKEN", file=sys.stderr)


def _article(role: Role) -> str:
    return "an" if role is Role.OWNER else "a"


@app.command("remove", epilog="Example: drumbeat token remove ada")
def remove(person: UserArgument, _yes: Yes = False) -> None:
    """Remove a user's token. Their jobs continue."""
    connect().remove_token(person)
    print(f"{person} has no token any more")

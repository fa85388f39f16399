"""`token`: manages who may use the server besides its owner, and in which role."""

from __future__ import annotations

import sys
from datetime import datetime, timedelta
from typing import Annotated

import typer

from drumbeat.cli.terminal.age import parse_age
from drumbeat.cli.terminal.connect import connect
from drumbeat.cli.terminal.formatting import format_duration
from drumbeat.cli.terminal.help import Yes, new_family
from drumbeat.model.principal import Role

app = new_family("Give users tokens of their own for this server.")

UserArgument = Annotated[str, typer.Argument(metavar="PERSON", help="The user's name, such as ada or ada@example.org.")]
RoleOption = Annotated[
    Role, typer.Option("--role", metavar="ROLE", help="owner, contributor or reader. A reader changes nothing.")
]
RoleArgument = Annotated[Role, typer.Argument(metavar="ROLE", help="owner, contributor or reader.")]
ExpiresOption = Annotated[
    str, typer.Option("--expires", metavar="AGE", help="When the token expires: 90d, 12h, or `never`.")
]
IdOption = Annotated[
    str, typer.Option("--id", metavar="ID", help="Only this token of the user, by its id in the list.")
]
NEVER = "never"


@app.command("list", epilog="Example: drumbeat token list")
def list_tokens() -> None:
    """List the tokens of users, with their roles, ends and last uses."""
    from drumbeat.cli.terminal.screen import fill_table, make_table, show

    tokens = connect().tokens()
    if not tokens:
        print("no tokens besides the one of the server's home; create one: drumbeat token create ada")
        return
    rows = [
        (one.person, one.role, one.kind, _day(one.expires_at), _day(one.used_at), one.id, one.label) for one in tokens
    ]
    show(fill_table(make_table("person", "role", "kind", "expires", "last used", "id", "of"), rows))


def _day(moment: datetime | None) -> str:
    return f"{moment.astimezone():%Y-%m-%d}" if moment else NEVER


@app.command("create", epilog="Example: drumbeat token create ada --role reader")
def create(person: UserArgument, role: RoleOption = Role.CONTRIBUTOR, expires: ExpiresOption = "90d") -> None:
    """Create a user's token and print it, with a link that signs a browser in once. Both are shown only once."""
    token = connect().create_token(person, role, None if expires == NEVER else parse_age(expires, "--expires"))
    print(token.token)
    end = f"expires on {token.expires_at:%Y-%m-%d}" if token.expires_at else "doesn't expire"
    print(f"{person} is {_article(role)} {role}; the token {end}, and goes into DRUMBEAT_TOKEN", file=sys.stderr)
    _print_link(token.link, token.link_expires_s)


@app.command("link", epilog="Example: drumbeat token link ada")
def link(person: UserArgument) -> None:
    """Print another link that signs a browser in once, as the user of a token."""
    view = connect().token_link(person)
    print(view.path)


def _print_link(url: str, expires_s: float) -> None:
    if url:
        life = format_duration(timedelta(seconds=expires_s))
        print(f"it opens the web page without the token, once, within {life}: {url}", file=sys.stderr)


@app.command("role", epilog="Example: drumbeat token role ada owner")
def set_role(person: UserArgument, role: RoleArgument) -> None:
    """Give a user another role. It holds at once, for all their tokens and sessions of the web page."""
    connect().set_role(person, role)
    print(f"{person} is {_article(role)} {role} now")


def _article(role: Role) -> str:
    return "an" if role is Role.OWNER else "a"


@app.command("remove", epilog="Example: drumbeat token remove ada")
def remove(person: UserArgument, token_id: IdOption = "", _yes: Yes = False) -> None:
    """Remove a user's tokens, or one of them. Their jobs continue; their sessions of the web page end."""
    connect().remove_token(person, token_id)
    print(f"{person}'s token {token_id} is removed" if token_id else f"{person} has no token any more")

"""`login` and `logout`: which server the commands of this user call, and by which token."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from drumbeat.client.logins import ServerLogin, read_logins, write_logins
from drumbeat.model.errors import NotFoundError, UnauthorizedError

Url = Annotated[
    str, typer.Argument(metavar="URL", help="The server's address, such as https://train.example.org:8470.")
]
AnyUrl = Annotated[str, typer.Argument(metavar="[URL]", help="The server's address; the current one without it.")]
Fingerprint = Annotated[
    str, typer.Option("--fingerprint", metavar="SHA256", help="Of the server's own authority, as its owner told you.")
]


def login(url: Url, fingerprint: Fingerprint = "") -> None:
    """Sign in to a server with your token, which is asked for or read from standard input.

    From then on, commands and `Client()` use this server, unless DRUMBEAT_SERVER or DRUMBEAT_HOME says otherwise.
    """
    from drumbeat.client.sign_in import plain_url, trusted_authority, try_login

    address = plain_url(url)
    authority = trusted_authority(address, fingerprint)
    made = ServerLogin(address, _read_token(), authority)
    try_login(made)
    path = write_logins(read_logins(os.environ).added(made), os.environ)
    print(f"signed in to {address}; commands use it until `drumbeat logout`")
    for name in ("DRUMBEAT_SERVER", "DRUMBEAT_HOME", "DRUMBEAT_TOKEN"):
        if os.environ.get(name):
            print(f"note: {name} is set, and counts more than {path}", file=sys.stderr)


def _read_token() -> str:
    if sys.stdin.isatty():
        import getpass

        token = getpass.getpass("token: ")
    else:
        token = sys.stdin.readline()
    if not token.strip():
        fix = "An owner of the server makes one: drumbeat token create NAME. Pipe it in, or type it when asked."
        raise UnauthorizedError("a token is needed, and none was given", fix=fix)
    return token.strip()


def logout(url: AnyUrl = "") -> None:
    """Forget a server and its token on this machine. The token stays valid: `drumbeat token remove` ends it."""
    from drumbeat.client.sign_in import plain_url

    logins = read_logins(os.environ)
    login = logins.of(plain_url(url)) if url else logins.current
    if login is None:
        what = f"this user isn't signed in to {url}" if url else "this user is signed in to no server"
        raise NotFoundError(what, fix="Sign in: drumbeat login URL")
    write_logins(logins.without(login.url), os.environ)
    print(f"{login.url} and its token are forgotten here")

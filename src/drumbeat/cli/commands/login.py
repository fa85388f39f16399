"""`login` and `logout`: which server the commands of this user call, and by which token."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from drumbeat.client.logins import ServerLogin, read_logins, write_logins
from drumbeat.model.errors import DrumbeatError, NotFoundError, RefusedError, UnauthorizedError

if TYPE_CHECKING:
    from drumbeat.client.provider_login import SignInPrompt

Url = Annotated[
    str, typer.Argument(metavar="URL", help="The server's address, such as https://train.example.org:8470.")
]
AnyUrl = Annotated[str, typer.Argument(metavar="[URL]", help="The server's address; the current one without it.")]
Fingerprint = Annotated[
    str, typer.Option("--fingerprint", metavar="SHA256", help="Of the server's own authority, as its owner told you.")
]


class Way(StrEnum):
    """How a user signs in."""

    TOKEN = "token"  # noqa: S105 - a word of the command
    DEVICE = "device"
    BROWSER = "browser"


By = Annotated[
    Way | None,
    typer.Option(
        "--by",
        metavar="WAY",
        help="token: one that an owner made; device: a code to type in any browser; browser: one on this machine.",
    ),
]


def login(url: Url, fingerprint: Fingerprint = "", by: By = None) -> None:
    """Sign in to a server by its identity provider, or with your token, which is asked for or read from standard input.

    From then on, commands and `Client()` use this server, unless DRUMBEAT_SERVER or DRUMBEAT_HOME says otherwise.
    """
    from drumbeat.client.sign_in import plain_url, trusted_authority, try_login

    address = plain_url(url)
    authority = trusted_authority(address, fingerprint)
    token = _token_of_provider(address, authority, by)
    made = ServerLogin(address, token or _read_token(), authority, is_by_provider=bool(token))
    try_login(made)
    path = write_logins(read_logins(os.environ).added(made), os.environ)
    print(f"signed in to {address}; commands use it until `drumbeat logout`")
    for name in ("DRUMBEAT_SERVER", "DRUMBEAT_HOME", "DRUMBEAT_TOKEN"):
        if os.environ.get(name):
            print(f"note: {name} is set, and counts more than {path}", file=sys.stderr)


def _token_of_provider(address: str, authority: str, by: Way | None) -> str:
    """Returns the token of a sign-in by the provider; "" = it is read instead.

    Without --by, a token that is piped in counts; at a terminal, the provider does, if the server has one.
    """
    if by is Way.TOKEN or (by is None and not sys.stdin.isatty()):
        return ""
    from drumbeat.client.provider_login import ProviderLogin

    sign_in = ProviderLogin(address, authority)
    provider = sign_in.provider()
    if not provider.name:
        if by is None:
            return ""
        fix = "Ask an owner of the server for a token, and leave --by out."
        raise RefusedError("this server has no identity provider", where=address, fix=fix)
    is_by_device = by is Way.DEVICE or (by is None and provider.has_device_flow)
    given = sign_in.by_device(_show_prompt) if is_by_device else sign_in.by_browser(_show_prompt)
    ends = f", until {given.expires_at[:10]}" if given.expires_at else ""
    print(f"{provider.name} says that you are {given.person}; your role here is {given.role}{ends}")
    return given.token


def _show_prompt(prompt: SignInPrompt) -> None:
    if prompt.is_typed:
        print(f"open {prompt.url} in any browser, and sign in with the code {prompt.code}", flush=True)
        return
    print(f"your browser signs you in: {prompt.url}", flush=True)
    print(f"go on there only if it shows the code {prompt.code}", flush=True)
    import webbrowser

    with suppress(webbrowser.Error):
        webbrowser.open(prompt.url)


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
    """Forget a server and its token on this machine.

    A token by the identity provider ends; one that an owner made stays valid: `drumbeat token remove` ends it.
    """
    from drumbeat.client.sign_in import end_token, plain_url

    logins = read_logins(os.environ)
    login = logins.of(plain_url(url)) if url else logins.current
    if login is None:
        what = f"this user isn't signed in to {url}" if url else "this user is signed in to no server"
        raise NotFoundError(what, fix="Sign in: drumbeat login URL")
    if login.is_by_provider:
        try:
            end_token(login)
        except UnauthorizedError:
            pass  # It has ended already.
        except DrumbeatError as error:
            print(f"note: the token is valid until it expires: {error}", file=sys.stderr)
    write_logins(logins.without(login.url), os.environ)
    print(f"{login.url} and its token are forgotten here")

"""`server`: starts, stops and inspects the server of this user."""

from __future__ import annotations

import os
import socket
import sys
from datetime import timedelta
from pathlib import Path
from typing import Annotated

import typer

from drumbeat.cli.commands import backups
from drumbeat.cli.terminal.age import parse_age
from drumbeat.cli.terminal.connect import connect
from drumbeat.cli.terminal.failures import Exit
from drumbeat.cli.terminal.formatting import count, format_duration, format_moment, format_size
from drumbeat.cli.terminal.help import new_family
from drumbeat.model.api.server import AgentListenerView, ServerView, WarmWorkersView
from drumbeat.model.errors import ConflictError, RefusedError, UnreachableError
from drumbeat.model.plurals import list_first, name_some

HostOption = Annotated[
    str | None, typer.Option("--host", metavar="ADDRESS", help="The IP address to listen on; 0.0.0.0 means all.")
]
PortOption = Annotated[int | None, typer.Option("--port", metavar="N", min=1, max=65535, help="The port to listen on.")]
AllowHostOption = Annotated[
    list[str], typer.Option("--allow-host", metavar="NAME", help="A further name by which clients call. Repeatable.")
]
TlsCertOption = Annotated[
    Path | None, typer.Option("--tls-cert", metavar="FILE", help="Serve by TLS, with this certificate chain (PEM).")
]
TlsKeyOption = Annotated[Path | None, typer.Option("--tls-key", metavar="FILE", help="The key of --tls-cert (PEM).")]
OidcOption = Annotated[
    Path | None,
    typer.Option("--oidc", metavar="FILE", help="The file of the OpenID Connect provider for signing in."),
]

server_app = new_family("Start, stop and inspect the server. Commands start it when they need it.")


@server_app.command("start", epilog="Example: drumbeat server start --idle-stop 0")
def start(
    idle_stop: Annotated[
        float | None, typer.Option("--idle-stop", metavar="S", min=0, help="Stop after S idle seconds; 0 means never.")
    ] = None,
    retain: Annotated[
        str | None,
        typer.Option(
            "--retain", metavar="AGE", help="Delete jobs so long after their end (30d), or `off`. It is kept."
        ),
    ] = None,
    mlflow: Annotated[
        str | None,
        typer.Option("--mlflow", metavar="URL", help="Copy all runs to this MLflow server, or `off`. It is kept."),
    ] = None,
    host: HostOption = None,
    port: PortOption = None,
    allow_host: AllowHostOption = [],  # noqa: B006 - Typer's default
    allow_remote: Annotated[
        bool, typer.Option("--allow-remote", help="Listen on an address that other machines can reach.")
    ] = False,
    allow_public: Annotated[
        bool, typer.Option("--allow-public", help="Listen for agents on public addresses, too.")
    ] = False,
    tls: Annotated[
        str | None,
        typer.Option("--tls", metavar="own", help="Serve by TLS, with a certificate of the home's own authority."),
    ] = None,
    tls_cert: TlsCertOption = None,
    tls_key: TlsKeyOption = None,
    scoring: Annotated[
        str | None,
        typer.Option(
            "--scoring", metavar="HOST:PORT", help="Where other machines call online endpoints, or `off`. It is kept."
        ),
    ] = None,
    oidc: OidcOption = None,
    otlp: Annotated[
        str | None, typer.Option("--otlp", metavar="URL", help="The OpenTelemetry collector for traces and logs.")
    ] = None,
    log_format: Annotated[
        str | None, typer.Option("--log-format", metavar="FORMAT", help="Of server.log: text or json.")
    ] = None,
) -> None:
    """Start the server if it is not running. --idle-stop, --retain and --mlflow hold for a running one, too."""
    age = None if retain in (None, "off") else parse_age(retain, "--retain")
    given = {
        "--host": host, "--port": port, "--tls": tls, "--tls-cert": tls_cert, "--tls-key": tls_key, "--otlp": otlp,
        "--log-format": log_format, "--scoring": scoring, "--oidc": oidc,
    }  # fmt: skip
    options = [text for option, value in given.items() if value is not None for text in (option, str(value))]
    options += [text for name in allow_host for text in ("--allow-host", name)]
    options += [*(["--allow-remote"] if allow_remote else []), *(["--allow-public"] if allow_public else [])]
    if options:
        _start_with(tuple(options), idle_stop)
    client = connect(idle_stop_s=idle_stop)
    if idle_stop is not None and idle_stop != client.status().idle_stop_s:
        client.set_idle_stop(timedelta(seconds=idle_stop) if idle_stop else None)
    if retain is not None:
        client.set_retention(age)
    if mlflow is not None:
        client.set_mlflow_server(None if mlflow in ("off", "") else mlflow)
    status_view = client.status()
    print(_format_server(status_view))
    if unused := unused_variables(status_view):
        print(f"note: {_format_unused(unused)}", file=sys.stderr)


def _start_with(options: tuple[str, ...], idle_stop_s: float | None) -> None:
    """Starts the server with options that it reads once. Raises ConflictError for one that runs already."""
    from drumbeat.client import autostart, discovery

    where = discovery.locate(None, None, None, os.environ)
    if where.url:
        what = "these options are for a server of this machine, and another one is named"
        fix = "Unset DRUMBEAT_SERVER, run `drumbeat logout`, or set DRUMBEAT_HOME to the home of the server to start."
        raise RefusedError(what, where=where.url, fix=fix)
    if discovery.find(where.home) is not None:
        fix = "Stop it first: `drumbeat server stop` (with `--force` while jobs are unfinished: they continue)."
        raise ConflictError(f"the server runs already, without {' '.join(options)}", where=str(where.home), fix=fix)
    starting = autostart.ServerStart(where.home, idle_stop_s, options=options)
    autostart.start(starting)
    print(starting.log.read_text(errors="replace"), end="", file=sys.stderr)  # Its warnings.


def _format_unused(variables: list[str]) -> str:
    has, values = ("has", "this value") if len(variables) == 1 else ("have", "these values")
    return (
        f"{name_some(variables)} {has} no effect: the running server was started without {values}. Restart it: "
        "`drumbeat server stop` (with `--force` while jobs are unfinished: they continue), then this command again."
    )


@server_app.command("init", epilog="Example: drumbeat server init --for-team --name train.example.org")
def init(
    for_team: Annotated[bool, typer.Option("--for-team", help="A server for several people, kept by systemd.")] = False,
    name: Annotated[
        str, typer.Option("--name", metavar="NAME", help="The name or address by which people call the server.")
    ] = "",
    host: HostOption = None,
    port: PortOption = None,
    allow_host: AllowHostOption = [],  # noqa: B006 - Typer's default
    tls_cert: TlsCertOption = None,
    tls_key: TlsKeyOption = None,
    scoring: Annotated[
        str, typer.Option("--scoring", metavar="HOST:PORT", help="Where other machines call online endpoints by TLS.")
    ] = "",
    root: Annotated[
        Path, typer.Option("--root", metavar="DIR", help="Write an image's files in this folder, and start nothing.")
    ] = Path("/"),
    replace: Annotated[bool, typer.Option("--replace", help="Replace a unit that says something else.")] = False,
) -> None:
    """Set up a server for a team on this machine: a system user, a systemd unit, TLS. Says what each person types."""
    from drumbeat.cli.team_server.setup import set_up
    from drumbeat.cli.team_server.unit import TeamServer

    if not for_team:
        fix = "A server of your own needs no set-up: commands start it. For several people: --for-team --name NAME."
        raise RefusedError("say for whom the server is", where="--for-team", fix=fix)
    names = tuple(dict.fromkeys((*filter(None, [name or socket.getfqdn()]), *allow_host)))
    listen = host or "0.0.0.0", port or 8470  # noqa: S104 - TLS
    server = TeamServer(names, *listen, sys.executable, tls_cert, tls_key, scoring)
    print(set_up(server, root, is_replacing=replace))


@server_app.command("stop", epilog="Example: drumbeat server stop")
def stop(
    force: Annotated[
        bool, typer.Option("--force", help="Stop even with unfinished jobs; they continue without the server.")
    ] = False,
) -> None:
    """Stop the server and the interpreters prepared on its machine. The next command that needs it starts it again."""
    try:
        connect(autostart=False).stop(force=force)
    except UnreachableError as error:
        if not error.what.startswith("no server"):
            raise
        print("no server is running")
    else:
        print("the server is stopping")


@server_app.command("status", epilog="Example: drumbeat server status")
def status() -> None:
    """Show whether the server is running, where, and what it is doing. Never starts it."""
    try:
        status_view = connect(autostart=False).status()
    except UnreachableError as error:
        if not error.what.startswith("no server"):
            raise
        print("no server is running; the next command that needs one starts it")
        raise typer.Exit(Exit.FAILED) from None
    print(_format_server(status_view))


def _format_server(status_view: ServerView) -> str:
    publishing = ", ".join(status_view.publishing)
    unfinished = ", ".join(status_view.unfinished) or "none"
    limit = format_duration(timedelta(seconds=status_view.idle_stop_s))
    idle = f"after {limit} with nothing to do" if status_view.idle_stop_s else "never by itself"
    how = "standing by" if status_view.stands_by else "running"
    rows = [
        f"{how} at {status_view.url} on {status_view.host}, process {status_view.pid}, version {status_view.version}",
        f"  up           {format_duration(timedelta(seconds=status_view.uptime_s))}",
        f"  files        {status_view.home}",
        *([f"  fingerprint  {status_view.ca_fingerprint}"] if status_view.ca_fingerprint else []),
        *([f"  backed up    {format_moment(status_view.backup_at)}"] if status_view.backup_at else []),
        f"  unfinished   {unfinished}",
        *([f"  lost         {_unknown(status_view)}"] if status_view.unknown_jobs else []),
        *([f"  outputs      still being put in their places: those of {publishing}"] if publishing else []),
        f"  stops        {idle}",
        *([f"  retains      jobs for {_retained(status_view)} after their end"] if status_view.retain_s else []),
        *([f"  copies       all runs to the MLflow server {status_view.mlflow}"] if status_view.mlflow else []),
        *([f"  active       {status_view.active_url}, which has all jobs"] if status_view.active_url else []),
        *(f"  beside       {one}, which takes over when the active server ends" for one in status_view.others),
        *(f"  prepared     {_spare(one)}" for one in status_view.spares),
        *(f"  agents       https://{_host(one)}, certificate until {one.ends:%Y-%m-%d}" for one in status_view.doors),
        *([f"  endpoints    {status_view.scoring}"] if status_view.scoring else []),
        *(f"  replicas     {one}" for one in status_view.replicas),
    ]
    return "\n".join(rows)


_MAX_UNKNOWN = 10
"""The maximum number of lost jobs that are named."""


def _unknown(status_view: ServerView) -> str:
    """Formats which jobs the copy that was restored couldn't know."""
    jobs = list_first(list(status_view.unknown_jobs), _MAX_UNKNOWN)
    return f"{jobs}: submitted after the backup from which this home was restored, and ended; submit them again"


def _spare(spare: WarmWorkersView) -> str:
    """Formats the warm workers that wait for a job."""
    what = f"{count(spare.interpreters, 'interpreter')} ({format_size(spare.bytes)})"
    return f"{what} since {spare.since.astimezone():%H:%M} for `{spare.command}`"


def _retained(status: ServerView) -> str:
    return format_duration(timedelta(seconds=status.retain_s))


def _host(listener: AgentListenerView) -> str:
    return f"[{listener.address}]:{listener.port}" if ":" in listener.address else f"{listener.address}:{listener.port}"


_READ_AT_START = (
    "SSL_CERT_FILE", "AWS_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "DRUMBEAT_OTLP", "DRUMBEAT_LOG_FORMAT", "DRUMBEAT_MLFLOW",
    "DRUMBEAT_DATABASE", "DRUMBEAT_SHARED", "DRUMBEAT_ALLOW_PUBLIC", "DRUMBEAT_SPARE_S",
)  # fmt: skip
"""The environment variables that a server reads once, when it starts."""


def unused_variables(server: ServerView) -> list[str]:
    """Returns the variables whose values here differ from those of the running server.

    The environment of a server on another machine, or of another user, can't be read: the list is empty then.
    """
    from drumbeat.client.discovery import here

    machine = here()
    if (server.host, server.boot_id) != (machine.host, machine.boot_id):
        return []
    try:
        entries = Path(f"/proc/{server.pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []
    return [name for name in _READ_AT_START if name in os.environ and _entry(name) not in entries]


def _entry(name: str) -> bytes:
    return os.fsencode(f"{name}={os.environ[name]}")


server_app.command("backup", epilog="Example: drumbeat server backup /srv/backups --keep 7")(backups.backup)
server_app.command("restore", epilog="Example: drumbeat server restore drumbeat.tar --take-over")(backups.restore)

"""The options of the command line, and the sockets to listen on."""

from __future__ import annotations

import argparse
import contextlib
import ipaddress
import os
import random
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from drumbeat.model.errors import RefusedError, StorageError
from drumbeat.server.home import default_home

MLFLOW = "DRUMBEAT_MLFLOW"
OTLP = "DRUMBEAT_OTLP"
OIDC = "DRUMBEAT_OIDC"
OIDC_FILE = "oidc.toml"
"""The file in the home with the identity provider, where no option names another one."""
LOG_FORMAT = "DRUMBEAT_LOG_FORMAT"
LOG_FORMATS = ("text", "json")
TLS = ("own",)
LOOPBACK = ("127.0.0.1", "localhost", "::1")
_LOWEST_PORT = 10_000


@dataclass(frozen=True)
class Options:
    """The options. idle_stop_s: 0 = never. allow_public: listen for agents on public addresses, too."""

    home: Path
    host: str = "127.0.0.1"
    port: int = 0
    idle_stop_s: float = 900.0
    allow_hosts: tuple[str, ...] = ()
    allow_remote: bool = False
    allow_public: bool = False
    mlflow: str = ""
    """The URL of an external MLflow server to which runs are copied; "" = none."""
    otlp: str = ""
    """The URL of the OpenTelemetry collector for traces and logs; "" = none."""
    log_format: str = LOG_FORMATS[0]
    tls: str = ""
    """`own` = TLS by a certificate of the home's authority, `files` = by the two files; "" = plain HTTP."""
    tls_cert: Path | None = None
    tls_key: Path | None = None
    scoring: str = ""
    """`HOST:PORT` where clients on other machines call online endpoints, `off` = nowhere; "" = as it was kept."""
    oidc: Path | None = None
    """The file with the identity provider; None = the one in the home, if there is one."""

    @property
    def provider_file(self) -> Path | None:
        """The file with the identity provider; None = there is none."""
        own = self.home / OIDC_FILE
        return self.oidc or (own if own.exists() else None)

    @property
    def url_host(self) -> str:
        """The host as in a URL or a `Host` header."""
        return f"[{self.host}]" if ":" in self.host else self.host

    @property
    def ip(self) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
        """The IP address. Raises ValueError."""
        return ipaddress.ip_address("127.0.0.1" if self.host == "localhost" else self.host)

    @property
    def own_host(self) -> str:
        """The loopback address, for browsers of this machine and agents of the previous version."""
        return self.url_host if self.ip.is_loopback else "127.0.0.1"

    @property
    def name_warning(self) -> str:
        """Returns a warning if a server on all addresses refuses calls from other machines; "" = none."""
        if not self.ip.is_unspecified or self.allow_hosts:
            return ""
        return (
            f"this server listens on all addresses ({self.host}), but refuses calls from other machines until it knows "
            "the names or addresses that they use: add --allow-host NAME for each"
        )

    @property
    def names(self) -> tuple[str, ...]:
        """The names and addresses by which clients call: those in a certificate of the home's authority."""
        own = () if self.ip.is_unspecified else (self.host,)
        return tuple(dict.fromkeys((*(one.partition(":")[0] for one in self.allow_hosts), *own, *LOOPBACK)))

    def url(self, port: int) -> str:
        """Returns the URL for clients. With TLS it has a name, since no certificate is for all addresses."""
        if not self.tls:
            return f"http://{self.url_host}:{port}"
        host = self.names[0] if self.allow_hosts or self.ip.is_unspecified else self.host
        return f"https://{f'[{host}]' if ':' in host else host}:{port}"

    def url_elsewhere(self, port: int) -> str:
        """Returns the URL for clients that a standby server refers to this one."""
        if self.tls or not self.ip.is_unspecified:
            return self.url(port)
        return f"http://{socket.gethostname()}:{port}"


def parse(arguments: Sequence[str]) -> Options:
    """Parses a command line. Ends the process with a message if it is invalid."""
    parser = argparse.ArgumentParser("python -m drumbeat.server", description="Serves one home folder.")
    add = parser.add_argument
    add("--home", type=Path, default=default_home(os.environ), metavar="DIR")
    add("--host", default="127.0.0.1", help="address to listen on (default: loopback)")
    add("--port", type=int, default=0, help="0 = the last port, else a free one")
    add("--idle-stop", type=float, default=900.0, metavar="SECONDS", help="stop after that long idle; 0 = never")
    add("--allow-host", action="append", default=[], metavar="NAME", help="a further name that clients call us by")
    add("--allow-remote", action="store_true", help="listen on an address that other machines can reach")
    add(
        "--allow-public", action="store_true", default=os.environ.get("DRUMBEAT_ALLOW_PUBLIC") == "1",
        help="listen for agents on public addresses, too (or DRUMBEAT_ALLOW_PUBLIC=1)",
    )  # fmt: skip
    add(
        "--mlflow", default=os.environ.get(MLFLOW, ""), metavar="URL",
        help=f"external MLflow server to which runs are copied (or {MLFLOW}=URL)",
    )  # fmt: skip
    add(
        "--otlp", default=os.environ.get(OTLP, ""), metavar="URL",
        help=f"OpenTelemetry collector for traces of jobs and logs, by OTLP over HTTP (or {OTLP}=URL)",
    )  # fmt: skip
    add(
        "--log-format", choices=LOG_FORMATS, default=os.environ.get(LOG_FORMAT) or LOG_FORMATS[0],
        help=f"of server.log (or {LOG_FORMAT})",
    )  # fmt: skip
    add("--tls", choices=TLS, default="", help="serve by TLS, with a certificate of the home's own authority")
    add("--tls-cert", type=Path, metavar="FILE", help="serve by TLS, with this certificate and those that signed it")
    add("--tls-key", type=Path, metavar="FILE", help="the key of --tls-cert")
    add(
        "--scoring", default="", metavar="HOST:PORT",
        help="where clients on other machines call online endpoints by TLS, or off (it is kept)",
    )  # fmt: skip
    add(
        "--oidc", type=Path, default=os.environ.get(OIDC) or None, metavar="FILE",
        help=f"sign in by the OpenID Connect provider of this file (or {OIDC}; default: {OIDC_FILE} in the home)",
    )  # fmt: skip
    given = parser.parse_args(arguments)
    if (given.tls_cert is None) != (given.tls_key is None):
        parser.error("--tls-cert and --tls-key go together")
    if given.tls and given.tls_cert:
        parser.error("--tls own makes a certificate: leave --tls-cert and --tls-key out, or --tls")
    tls = given.tls or ("files" if given.tls_cert else "")
    return Options(
        given.home.absolute(), given.host, given.port, given.idle_stop, tuple(given.allow_host), given.allow_remote,
        given.allow_public, given.mlflow, given.otlp, given.log_format, tls,
        given.tls_cert, given.tls_key, given.scoring, given.oidc.absolute() if given.oidc else None,
    )  # fmt: skip


def bind(options: Options, last_port: int) -> list[socket.socket]:
    """Returns bound sockets of one port: the given one, else the last one, else a free one."""
    check_address(options)
    wanted = [options.port] if options.port else [*filter(None, [last_port]), *quiet_ports(), 0]
    reason = ""
    for port in wanted:
        try:
            return _bound(options, port)
        except OSError as error:
            reason = error.strerror or str(error)
    raise StorageError(f"can't listen: {reason}", where=f"{options.host}:{wanted[-1]}", fix="Use another --port.")


def quiet_ports() -> list[int]:
    """Returns a few random ports outside of the kernel's range, which other programs rarely take during a restart."""
    with contextlib.suppress(OSError, ValueError):
        first_of_the_kernel = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
        return random.sample(range(_LOWEST_PORT, first_of_the_kernel), 8)
    return []


def _bound(options: Options, port: int) -> list[socket.socket]:
    first = _socket(options.host, port)
    if options.own_host == options.url_host or options.ip.is_unspecified:
        return [first]
    try:
        return [first, _socket(options.own_host, first.getsockname()[1])]
    except OSError:
        first.close()
        raise


def _socket(host: str, port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError:
        listener.close()
        raise
    return listener


def check_address(options: Options) -> None:
    """Raises RefusedError for an address that other machines can reach, unless it is allowed."""
    try:
        address = options.ip
    except ValueError:
        raise RefusedError("--host needs an IP address", where=options.host, fix="Find it with `ip addr`.") from None
    if not address.is_loopback and not options.allow_remote:
        what = "other machines can reach this address, so anyone with the token could run jobs"
        fix = "To allow this, add --allow-remote."
        if not options.tls:
            fix += " Add --tls own, too: without TLS, tokens can be read on the way."
        raise RefusedError(what, where=options.host, fix=fix)

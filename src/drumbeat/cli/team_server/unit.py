"""The files of a server for a team, and what its people type. Pure functions."""

from __future__ import annotations

import ipaddress
import re
import shlex
from dataclasses import dataclass
from pathlib import Path

from drumbeat.model.errors import RefusedError
from drumbeat.model.programs import SERVER

USER = "drumbeat"
HOME = Path("/var/lib/drumbeat")
UNIT = Path("/etc/systemd/system/drumbeat.service")
SYSUSERS = Path("/etc/sysusers.d/drumbeat.conf")
_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?)*")


@dataclass(frozen=True)
class TeamServer:
    """What an admin says of the server. python: that has drumbeat. names: by which people call, the first in URLs."""

    names: tuple[str, ...]
    host: str
    port: int
    python: str
    tls_cert: Path | None = None
    tls_key: Path | None = None
    scoring: str = ""
    """HOST:PORT at which other machines call online endpoints; `off` = nowhere, "" = as it was."""

    def check(self) -> None:
        """Raises RefusedError for what can't be a server's."""
        if (self.tls_cert is None) != (self.tls_key is None):
            raise RefusedError(
                "--tls-cert and --tls-key go together", fix="Give both files, or none for an own authority."
            )
        for name in self.names:
            if not _NAME.fullmatch(name) and not _is_address(name):
                raise RefusedError(
                    f"{name!r} is no host name or address", where="--name", fix="Such as train.example.org."
                )
        if not _is_address(self.host):
            raise RefusedError("--host needs an IP address", where=self.host, fix="Find it with `ip addr`.")
        self._check_scoring()
        for path in (self.python, str(self.tls_cert or ""), str(self.tls_key or "")):
            if not path.isprintable() or "%" in path:
                raise RefusedError("a systemd unit can't name this path", where=path, fix="Use another folder.")

    def _check_scoring(self) -> None:
        host, _, port = self.scoring.rpartition(":")
        is_port = port.isascii() and port.isdigit() and 0 < int(port) < 65536
        if self.scoring not in ("", "off") and not (is_port and _is_address(host.removeprefix("[").removesuffix("]"))):
            what = f"{self.scoring!r} isn't an IP address and a port"
            raise RefusedError(what, where="--scoring", fix="Such as 0.0.0.0:8443, which is all addresses.")
        if is_port and int(port) == self.port:
            raise RefusedError(f"the server itself listens at port {port}", where="--scoring", fix="Use another one.")

    @property
    def url(self) -> str:
        """The address that people type."""
        name = self.names[0]
        return f"https://{f'[{name}]' if ':' in name else name}:{self.port}"

    @property
    def command(self) -> list[str]:
        """The command line of the server."""
        tls = ["--tls", "own"]
        if self.tls_cert and self.tls_key:
            tls = ["--tls-cert", str(self.tls_cert), "--tls-key", str(self.tls_key)]
        names = [text for name in self.names for text in ("--allow-host", name)]
        scoring = ["--scoring", self.scoring] if self.scoring else []
        listen = ["--host", self.host, "--allow-remote", "--port", str(self.port)]
        return [self.python, "-m", SERVER, "--home", str(HOME), *listen, *names, *tls, *scoring, "--idle-stop", "0"]


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def unit(server: TeamServer) -> str:
    """Returns the systemd unit. Jobs go on while the server restarts: only its own process is ended."""
    return f"""\
[Unit]
Description=drumbeat server
After=network-online.target
Wants=network-online.target

[Service]
User={USER}
Group={USER}
StateDirectory={HOME.name}
StateDirectoryMode=0700
WorkingDirectory={HOME}
Environment=DRUMBEAT_HOME={HOME} HOME={HOME}
EnvironmentFile=-/etc/drumbeat/server.env
ExecStart={_line(server.command)}
Restart=always
RestartSec=2
# Agents and ranks of jobs on this machine aren't the server's to end.
KillMode=process
UMask=0077
# Nothing that implies NoNewPrivileges: jobs on this machine inherit it, and rootless containers need newuidmap.
LimitNOFILE=65536

[Install]
WantedBy=multi-user.target
"""


def _line(command: list[str]) -> str:
    """Joins a command line as systemd reads it."""
    return " ".join(shlex.quote(one) if " " in one or "'" in one else one for one in command).replace("$", "$$")


def sysusers() -> str:
    """Returns the declaration of the server's user, for systemd-sysusers."""
    return f'u {USER} - "drumbeat server" {HOME} /usr/sbin/nologin\n'


def _scoring(server: TeamServer) -> str:
    """Returns the line with the address of endpoints, "" = there is none."""
    if server.scoring in ("", "off"):
        return ""
    name = server.names[0]
    port = server.scoring.rpartition(":")[2]
    return f"\n  endpoints https://{f'[{name}]' if ':' in name else name}:{port}/endpoints/…; open this port, too"


def instructions(server: TeamServer, fingerprint: str, *, is_running: bool) -> str:
    """Returns what the admin and each person do next. fingerprint: "" = of a public authority, or not known yet."""
    as_user = f"sudo -u {USER} env DRUMBEAT_HOME={HOME} {Path(server.python).with_name('drumbeat')}"
    pin = f" --fingerprint {fingerprint}" if fingerprint else ""
    if not fingerprint and server.tls_cert is None:
        pin = " --fingerprint …   # `server status`, typed as above, prints it"
    state = "runs" if is_running else "is set up, and starts with the machine or by: systemctl start drumbeat"
    return f"""\
the server {state}
  address   {server.url}{_scoring(server)}
  token     {HOME}/token, an owner's; only {USER} and root can read it
  unit      {UNIT}; log: {HOME}/server.log, journalctl -u drumbeat
  data      {HOME}; back it up

for each person, type here, and send them what it prints:
  {as_user} token create NAME --role contributor
each person then opens the link, or types:
  pip install drumbeat
  drumbeat login {server.url}{pin}"""

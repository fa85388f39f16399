"""The login to a host: ssh's command line, its options, and the connection that stays open between requests."""

from __future__ import annotations

import hashlib
import os
import shlex
import subprocess
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from drumbeat.model.errors import EngineError
from drumbeat.node.host.machine import is_private

_OPTIONS = (
    "BatchMode=yes", "ConnectTimeout=8", "ServerAliveInterval=5", "ServerAliveCountMax=3", "ForwardAgent=no",
    "ForwardX11=no", "ClearAllForwardings=yes", "RequestTTY=no", "LogLevel=ERROR",
    "ControlMaster=auto", "ControlPersist=60",
)  # fmt: skip

RESOLVE_S = 10.0
"""How long `ssh -G` may take to print its configuration."""


@dataclass(frozen=True)
class Destination:
    """The destination of ssh. key_alias: the name under which the host's key is known, "" = its own."""

    host: str
    port: int
    key_alias: str = ""

    def known_as(self) -> str:
        """The host's name in a known_hosts file."""
        if self.key_alias:
            return self.key_alias
        return self.host if self.port == 22 else f"[{self.host}]:{self.port}"


@dataclass(frozen=True)
class Login:
    """The login to a host. port: None, user, identity: "" = ssh's own default."""

    address: str
    port: int | None = None
    user: str = ""
    identity: str = ""
    options: tuple[str, ...] = ()

    @property
    def line(self) -> str:
        """The control socket, shared by equal logins only.

        ssh's own `%C` is the same for two hosts of one address behind different jump hosts.
        """
        return f"{_control_folder()}/{hashlib.sha256(repr(self).encode()).hexdigest()[:16]}"

    def command(self, *more: str) -> list[str]:
        """The ssh command line up to the host."""
        key = ["-i", str(Path(self.identity).expanduser()), "-o", "IdentitiesOnly=yes"] if self.identity else []
        # ssh uses the first value of an option: the user's own come before ours.
        options = [word for option in (*self.options, *_OPTIONS) for word in ("-o", option)]
        user = ["-l", self.user] if self.user else []
        port = [] if self.port is None else ["-p", str(self.port)]
        return ["ssh", "-T", *key, *port, *user, *options, *more, "--", self.address]

    def destination(self) -> Destination:
        """The destination by ssh's configuration (`ssh -G`), else the address itself."""
        settings: dict[str, str] = {}
        with suppress(OSError, subprocess.SubprocessError):
            done = subprocess.run(
                self.command("-G"), stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
                timeout=RESOLVE_S, cwd="/", check=False,
            )  # fmt: skip
            settings = {key: value for key, _, value in (line.partition(" ") for line in done.stdout.splitlines())}
        port = settings.get("port", "")
        return Destination(
            settings.get("hostname") or self.address,
            int(port) if port.isdecimal() else self.port or 22,
            settings.get("hostkeyalias", ""),
        )

    def by_hand(self) -> str:
        """The command by which a user logs in."""
        words = ["ssh", *([] if self.port is None else ["-p", str(self.port)])]
        words += ["-i", self.identity] if self.identity else []
        return shlex.join([*words, f"{self.user}@{self.address}" if self.user else self.address])


def _control_folder() -> Path:
    """The folder of ssh's control sockets: a short path that only this user can access.

    It isn't the session's folder, because a server may outlive the session that started it.
    """
    folder = Path()
    for base in filter(None, (os.environ.get("XDG_RUNTIME_DIR"), tempfile.gettempdir())):
        folder = Path(base, f"drumbeat-ssh-{os.getuid()}")
        with suppress(OSError):
            folder.mkdir(0o700, exist_ok=True)
            if is_private(folder):
                return folder
    raise EngineError("the folder for ssh's connections belongs to another user", where=str(folder), fix="Remove it.")

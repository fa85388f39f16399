"""Puts the files of a server for a team in place, makes its user, and starts it."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from contextlib import suppress
from pathlib import Path

from drumbeat.cli.team_server.unit import HOME, SYSUSERS, UNIT, USER, TeamServer, instructions, sysusers, unit
from drumbeat.model.certificates import fingerprint
from drumbeat.model.errors import ConflictError, NotFoundError, RefusedError, UnreachableError

START_S = 60.0
SYSTEMD = Path("/run/systemd/system")
"""Exists where systemd runs this machine."""
STARTED = ("systemctl", "daemon-reload"), ("systemctl", "enable", "drumbeat"), ("systemctl", "restart", "drumbeat")


def set_up(server: TeamServer, root: Path, *, is_replacing: bool) -> str:
    """Sets the server up, and returns what is to be typed next. It may be repeated.

    root: `/`, or the folder of an image, in which nothing is started.

    Raises RefusedError, ConflictError, NotFoundError, UnreachableError.
    """
    server.check()
    if os.geteuid() != 0:
        raise RefusedError("a system user and a unit are root's to make", fix="Type it with sudo.")
    if shutil.which("systemd-sysusers") is None:
        fix = "Start the server as deploy/ says for containers and Kubernetes, or install systemd."
        raise NotFoundError("this machine has no systemd-sysusers, which makes the server's user", fix=fix)
    _write(root, UNIT, unit(server), is_replacing=is_replacing)
    _write(root, SYSUSERS, sysusers(), is_replacing=True)
    _run("systemd-sysusers", *([] if root == Path("/") else [f"--root={root}"]), SYSUSERS.name)
    is_here = root == Path("/")
    if is_here:
        _require("x", Path(server.python), "Install drumbeat where every user can read it, such as /opt/drumbeat.")
        for file in filter(None, (server.tls_cert, server.tls_key)):
            fix = f"Such as: setfacl -m u:{USER}:r {file} (and x for the folders above it), in each renewal, too."
            _require("r", file, fix)
    if not is_here or not SYSTEMD.exists():
        return instructions(server, "", is_running=False)
    for command in STARTED:
        _run(*command)
    return instructions(server, _wait_for_start(server), is_running=True)


def _write(root: Path, path: Path, text: str, *, is_replacing: bool) -> None:
    place = root / path.relative_to("/")
    before = place.read_text() if place.exists() else text
    if before != text and not is_replacing:
        fix = "Change the unit itself, or replace it: --replace"
        raise ConflictError("there is such a unit, which says something else", where=str(place), fix=fix)
    place.parent.mkdir(parents=True, exist_ok=True)
    fresh = place.with_name(f".{place.name}.new")
    fresh.write_text(text)
    fresh.chmod(0o644)
    fresh.replace(place)


def _require(access: str, file: Path, fix: str) -> None:
    """Raises RefusedError unless the server's user has this access (`r` or `x`) to a file."""
    command = ["test", f"-{access}", str(file)]
    if subprocess.run(command, user=USER, group=USER, extra_groups=[], cwd="/", check=False).returncode != 0:
        raise RefusedError(f"user {USER} can't {'read' if access == 'r' else 'run'} it", where=str(file), fix=fix)


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        output = (done.stderr or done.stdout).strip() or f"exit code {done.returncode}"
        raise RefusedError(f"`{' '.join(command)}` failed: {output}")


def _wait_for_start(server: TeamServer) -> str:
    """Waits until the server has announced itself, and returns its authority's fingerprint, "" = it has none."""
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        if (HOME / "server.json").exists():
            with suppress(OSError, ValueError):
                pem = (HOME / "ca.pem").read_text()
                return "" if server.tls_cert else fingerprint(pem[pem.index("-----BEGIN CERTIFICATE") :])
            return ""
        time.sleep(0.2)
    fix = "See: journalctl -u drumbeat -n 50"
    raise UnreachableError(f"the server isn't ready after {START_S:.0f} s", where=str(HOME), fix=fix)

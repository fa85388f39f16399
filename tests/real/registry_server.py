"""A registry of images that asks for a password: Debian's docker-registry, without TLS."""

from __future__ import annotations

import contextlib
import shutil
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tools import debian_packages

from .house import until
from .started import free_ports

USER, PASSWORD = "robot", "correct-horse-battery-staple"
NEEDED = {"docker-registry": "docker-registry", "htpasswd": "apache2-utils"}


@dataclass(frozen=True)
class RegistryServer:
    """address: host and port, as names of its images begin."""

    address: str
    folder: Path

    def log(self) -> str:
        return (self.folder / "log").read_text()


@contextlib.contextmanager
def a_registry(folder: Path, host: str = "127.0.0.1") -> Iterator[RegistryServer]:
    if any(shutil.which(program) is None for program in NEEDED):
        debian_packages.install(*NEEDED.values())
    if missing := [package for program, package in NEEDED.items() if shutil.which(program) is None]:
        pytest.skip(f"needs a registry: apt-get install {' '.join(missing)}")
    address = f"{host}:{free_ports(1)[0]}"
    made = subprocess.run(["htpasswd", "-Bbn", USER, PASSWORD], capture_output=True, text=True, check=True)
    (folder / "htpasswd").write_text(made.stdout)
    (folder / "config.yml").write_text(f"""\
version: 0.1
log: {{level: info}}
storage: {{filesystem: {{rootdirectory: {folder}/images}}}}
http: {{addr: "{address}", secret: tests}}
auth: {{htpasswd: {{realm: tests, path: {folder}/htpasswd}}}}
""")
    command = ["docker-registry", "serve", str(folder / "config.yml")]
    with (folder / "log").open("w") as log, subprocess.Popen(command, stdout=log, stderr=log) as server:
        try:
            until(lambda: _answers(address), 120, "the registry's answer")
            yield RegistryServer(address, folder)
        finally:
            server.kill()


def _answers(address: str) -> bool:
    host, port = address.split(":")
    with contextlib.suppress(OSError), socket.create_connection((host, int(port)), timeout=1):
        return True
    return False

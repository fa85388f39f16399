"""Real ssh servers on the nodes of a lab, with keys of their own; nothing of the machine's own ssh is touched."""

from __future__ import annotations

import contextlib
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from drumbeat.engines.netlab.lab import Lab, require_tools
from drumbeat.engines.ssh.login import Login
from drumbeat.model.errors import EngineError
from tools.debian_packages import install

SSHD = "/usr/sbin/sshd"


def missing() -> str:
    """What is missing for it, "" = nothing any more: root has it installed."""
    try:
        require_tools()
    except EngineError as error:
        return str(error)
    return missing_openssh()


def missing_openssh() -> str:
    """The same of ssh and sshd alone."""
    if not Path(SSHD).exists():
        install("openssh-server", "openssh-client")
    if not Path(SSHD).exists() or shutil.which("ssh") is None:
        return "OpenSSH isn't here: install it (Debian: apt-get install openssh-server openssh-client)"
    return ""


@dataclass
class SshLab:
    """A lab whose nodes have ssh servers. folder: with keys, `known_hosts`, and a home folder for each node's root."""

    lab: Lab
    folder: Path

    @property
    def names(self) -> list[str]:
        """The nodes."""
        return [node["name"] for node in self.lab.blueprint()["nodes"]]

    def address(self, name: str) -> str:
        """A node's own."""
        return next(node["address"] for node in self.lab.blueprint()["nodes"] if node["name"] == name)

    def login(self, name: str, **changed: str) -> Login:
        """The right way in, but for what is changed: `identity`, `known`; and then not through an open connection."""
        told = {"identity": str(self.folder / "key"), "known": str(self.folder / "known_hosts"), **changed}
        options = (f"UserKnownHostsFile={told['known']}", "GlobalKnownHostsFile=/dev/null")
        if changed:
            options = (*options, "ControlPath=none")
        return Login(self.address(name), 22, "root", told["identity"], options)

    def start(self, name: str) -> None:
        """Its ssh server: on its own address, in its own namespaces, with the node's own home folder."""
        conf = self.folder / f"{name}.conf"
        home = self.folder / "homes" / name
        home.mkdir(parents=True, exist_ok=True)
        conf.write_text(
            f"Port 22\nListenAddress {self.address(name)}\nHostKey {self.folder}/host_key\nPidFile none\nUsePAM no\n"
            f"AuthorizedKeysFile {self.folder}/key.pub\nStrictModes no\nPermitRootLogin prohibit-password\n"
            f"PasswordAuthentication no\nSetEnv HOME={home}\nSubsystem sftp internal-sftp\n"
        )
        subprocess.run(self.lab.inside(name, ["/bin/sh", "-c", f"mkdir -p /run/sshd; {SSHD} -f {conf}"]), check=True)
        deadline = time.monotonic() + 180
        while not self._answers(name):
            assert time.monotonic() < deadline, "sshd didn't come up"
            time.sleep(0.05)

    def _answers(self, name: str) -> bool:
        try:
            socket.create_connection((self.address(name), 22), 1).close()
        except OSError:
            return False
        return True


@contextlib.contextmanager
def ssh_lab(folder: Path, name: str, nodes: int) -> Iterator[SshLab]:
    """Ends with the block, and with this process."""
    for key in ("key", "host_key", "other_key"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / key)], check=True)
    lab = Lab(folder / "lab", name, nodes)
    try:
        lab.up()
        there = SshLab(lab, folder)
        public = (folder / "host_key.pub").read_text().split()
        known = [f"{there.address(one)} {public[0]} {public[1]}\n" for one in there.names]
        (folder / "known_hosts").write_text("".join(known))
        for one in there.names:
            there.start(one)
        yield there
    finally:
        lab.close()

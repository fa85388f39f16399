"""Computes with nodes of their own for a house: netlab's, and hosts with real ssh servers on the nodes of a lab."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from drumbeat.engines.netlab.lab import Lab, require_tools
from drumbeat.model.errors import EngineError
from drumbeat.node.host.gangs import members
from tools import slurmlab
from tools.slurmlab import SlurmLab
from tools.sshlab import SshLab, missing, ssh_lab

from .house import House, a_house, until

BARE_PYTHON = str(Path(os.__file__).parents[2] / "bin" / "python3")
"""An interpreter with nothing of ours installed in it."""


@dataclass
class Place:
    """A house, a compute of it with three nodes, and a hand on the nodes. hosts: where ssh servers must be started."""

    house: House
    compute: str
    lab: Lab
    hosts: SshLab | None = None

    @property
    def nodes(self) -> list[str]:
        """Names of the machines."""
        return [node["name"] for node in self.lab.blueprint()["nodes"]]

    def gangs(self, node: str) -> Path:
        """The folder of the gangs of a node."""
        if self.hosts:
            folder = self.hosts.folder / "homes" / node / ".drumbeat" / "node"
            return next(folder.glob(f"{self.compute}-*/gangs/{node}"), folder / "none yet")
        return self.lab.folder / "nodes" / node / "gangs"

    def processes(self) -> list[int]:
        """Everything that belongs to a gang, on any node."""
        return [pid for node in self.nodes for gang in self.gangs(node).glob("*") for pid in members(gang)]

    def switch_off(self, node: str) -> None:
        self.lab.switch_off(node)
        until(lambda: not self.lab.pid_of(node))

    def switch_on(self, node: str) -> None:
        """As it was, with its ssh server."""
        self.lab.switch_on(node)
        until(lambda: self.lab.pid_of(node))
        if self.hosts:
            self.hosts.start(node)

    def restore(self) -> None:
        """All nodes on, all links up."""
        for node in self.nodes:
            if self.lab.pid_of(node):
                self.lab.set_link(node, is_up=True)
            else:
                self.switch_on(node)
        until(lambda: not any(one.unusable for one in self.house.client.compute(self.compute).machines))


@contextlib.contextmanager
def netlab(folder: Path, cpus: int = 4) -> Iterator[Place]:
    try:
        require_tools()
    except EngineError as error:
        pytest.skip(str(error))
    with a_house(folder) as house:
        house.client.create_compute({"name": "lab", "type": "netlab", "nodes": 3, "cpus": cpus})
        lab = Lab(house.home / "labs" / "lab", "lab", 3)
        try:
            yield Place(house, "lab", lab)
        finally:
            with contextlib.suppress(Exception):
                house.client.delete_compute("lab")
            house.close()
            lab.close()


@contextlib.contextmanager
def ssh(folder: Path, cpus: int = 4) -> Iterator[Place]:
    if why := missing():
        pytest.skip(why)
    hosts_folder = folder / "hosts"
    hosts_folder.mkdir()
    with a_house(folder) as house, ssh_lab(hosts_folder, "host", 3) as hosts:
        spec = {
            "name": "rack", "type": "ssh", "user": "root", "identity_file": str(hosts_folder / "key"),
            "hosts": [{"address": hosts.address(name), "name": name, "cpus": cpus} for name in hosts.names],
            "options": [f"UserKnownHostsFile={hosts_folder}/known_hosts"],
            "python": BARE_PYTHON, "programs": str(Path(sys.executable).parent),
        }  # fmt: skip
        house.client.create_compute(spec)
        yield Place(house, "rack", hosts.lab, hosts)


@contextlib.contextmanager
def slurm(folder: Path, furnish: Callable[[SlurmLab], None] = lambda _: None) -> Iterator[Place]:
    """furnish: is given the cluster before it is used."""
    if why := slurmlab.missing():
        pytest.skip(why)
    with a_house(folder) as house, slurmlab.slurm_lab(folder / "slurm", "n", 3) as cluster:
        spec = {
            "name": "cluster", "type": "slurm", "folder": str(cluster.shared), "conf": str(cluster.conf),
            "python": BARE_PYTHON, "programs": str(Path(sys.executable).parent),
        }  # fmt: skip
        furnish(cluster)
        house.client.create_compute(spec)
        until(lambda: house.client.compute("cluster").machines)
        yield Place(house, "cluster", cluster.lab)


PLACES = {"netlab": netlab, "ssh": ssh}
"""Those whose machines drumbeat chooses itself."""

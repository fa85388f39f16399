"""Engines that the demo's job runs on: this machine, a netlab, a real Slurm on a lab's nodes. Two of them need root."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

from drumbeat.engines.netlab.lab import require_tools
from drumbeat.model.errors import EngineError
from tests.real.house import House, a_house
from tests.real.places import BARE_PYTHON, Place, netlab, slurm
from tools import slurmlab
from tools.slurmlab import SlurmLab

LOW = "low"
"""The compute of a partition whose jobs Slurm requeues for those of others."""


@dataclass
class Ground:
    """A server with a compute, and a hand on the compute's nodes. place: None = it has no nodes of its own."""

    house: House
    compute: str
    place: Place | None = None
    cluster: SlurmLab | None = None
    _rivals: list[str] = field(default_factory=list[str])

    @property
    def nodes(self) -> Place:
        """Nodes that can be cut off and switched off. Raises LookupError."""
        if self.place is None:
            raise LookupError("this compute has no nodes of its own")
        return self.place

    def take_nodes(self) -> None:
        """Another job of the cluster takes the nodes of a job in the partition of LOW."""
        assert self.cluster is not None, "only Slurm preempts"
        rival = self.cluster.slurm("sbatch", "--parsable", "-N3", "-o/dev/null", "--wrap", "srun sleep 600")
        self._rivals.append(rival.strip())

    def give_back(self) -> None:
        """Ends that job."""
        while self._rivals and self.cluster is not None:
            self.cluster.slurm("scancel", self._rivals.pop())

    def restore(self) -> None:
        """Every node on, connected and free."""
        self.give_back()
        if self.cluster is not None:
            self.cluster.mend()
        elif self.place is not None:
            self.place.restore()


@contextlib.contextmanager
def _on_local(folder: Path) -> Generator[Ground]:
    with a_house(folder) as house:
        yield Ground(house, "local")


@contextlib.contextmanager
def _on_netlab(folder: Path) -> Generator[Ground]:
    require_tools()
    with netlab(folder) as place:
        yield Ground(place.house, place.compute, place)


@contextlib.contextmanager
def _on_slurm(folder: Path) -> Generator[Ground]:
    if why := slurmlab.missing():
        raise EngineError(why)
    clusters: list[SlurmLab] = []
    with slurm(folder, clusters.append) as place:
        (cluster,) = clusters
        spec = {
            "name": LOW, "type": "slurm", "folder": str(cluster.shared), "conf": str(cluster.conf), "partition": LOW,
            "python": BARE_PYTHON, "programs": str(Path(sys.executable).parent),
        }  # fmt: skip
        place.house.client.create_compute(spec)
        yield Ground(place.house, place.compute, place, cluster)


GROUNDS: dict[str, Callable[[Path], AbstractContextManager[Ground]]] = {
    "local": _on_local,
    "netlab": _on_netlab,
    "slurm": _on_slurm,
}

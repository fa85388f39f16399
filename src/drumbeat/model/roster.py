"""Who takes part in a round: the nodes as the other nodes see them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Member:
    """What a node said of itself when its agent enrolled.

    address: as the other nodes reach it. root: the attempt's folder on that node. checkpoints: a folder that outlives
    the attempt. gpus: device ids that its ranks see. cpus: cores it may use. environment: what the ranks inherit is
    not told, only a hash of the interpreter and its packages. interface, subnet: what `address` is on, "" = not known.
    infiniband: its devices. mpi: name and version of the MPI on the job's PATH, "" = not looked for. data_port: where
    it passes on what it has of the inputs, 0 = it doesn't. cache: names the folder that it keeps them in, "" = unknown.
    image: digest of the image that its ranks' containers are of, "" = they run in none. layers: a hash of what is in
    that image, where nodes must have it alike. probe_port: where it takes part in the pre-flight, 0 = not yet, -1 = it
    can't.
    """

    node: int
    host: str
    address: str
    root: str
    checkpoints: str
    gpus: tuple[str, ...] = ()
    cpus: int = 1
    environment: str = ""
    interface: str = ""
    subnet: str = ""
    infiniband: tuple[str, ...] = ()
    mpi: str = ""
    data_port: int = 0
    cache: str = ""
    image: str = ""
    layers: str = ""
    probe_port: int = 0


@dataclass(frozen=True)
class Roster:
    """One round's members in order of their node, and the port of node 0 that the ranks meet at.

    ports: the one that each node holds for the round, node 0's first. more_ports: those that each node holds beside it,
    where a launcher needs more (`drumbeat.launchers.more_ports`). unique_job: the job's unique name where it isn't its
    name, as a deleted job had that; else "".
    """

    attempt: int
    round: int
    members: tuple[Member, ...]
    port: int
    ports: tuple[int, ...] = ()
    more_ports: tuple[tuple[int, ...], ...] = ()
    unique_job: str = ""

    def held(self, node: int) -> tuple[int, ...]:
        """All ports that a node holds, in the order in which it took them; () = not known, as in a preview."""
        first = self.ports[node : node + 1]
        return (*first, *(self.more_ports[node] if node < len(self.more_ports) else ()))

    @property
    def master(self) -> Member:
        """Node 0."""
        return self.members[0]

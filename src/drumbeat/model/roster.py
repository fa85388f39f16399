"""The members of a round: the nodes as the other nodes see them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Member:
    """A node as its agent described it when it enrolled.

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
    digest: str = ""
    """Names the whole roster, of which this one has only some members and their ports; "" = this one is whole."""

    @property
    def is_whole(self) -> bool:
        """Whether it has all members."""
        return not self.digest

    @property
    def master(self) -> Member:
        """Node 0."""
        return self.members[0]

    def member(self, node: int) -> Member:
        """The entry of a node. Raises IndexError where this roster lacks it."""
        return self.members[self._index(node)]

    def held(self, node: int) -> tuple[int, ...]:
        """All ports that a node holds, in the order in which it took them; () = not known, as in a preview."""
        index = self._index(node)
        first = self.ports[index : index + 1]
        return (*first, *(self.more_ports[index] if index < len(self.more_ports) else ()))

    def _index(self, node: int) -> int:
        if self.is_whole:
            return node
        for index, member in enumerate(self.members):
            if member.node == node:
                return index
        raise IndexError(f"the roster has no node {node}")

    def brief(self, digest: str) -> Roster:
        """Returns what ranks need that meet at node 0: its entry, and one at another address, towards which node 0
        finds its own interface.
        """
        other = next((one.node for one in self.members if one.address != self.master.address), None)
        return replace(self._of((0,) if other is None else (0, other)), digest=digest)

    def with_member(self, member: Member, ports: tuple[int, ...]) -> Roster:
        """Returns the roster with the entry of a node that it may lack. ports: all that the node holds."""
        if self.is_whole or any(one.node == member.node for one in self.members):
            return self
        return replace(
            self,
            members=(*self.members, member),
            ports=(*self.ports, *ports[:1]),
            more_ports=(*self.more_ports, ports[1:]),
        )

    def _of(self, nodes: Iterable[int]) -> Roster:
        chosen = tuple(nodes)
        return replace(
            self,
            members=tuple(self.members[node] for node in chosen),
            ports=tuple(self.ports[node] for node in chosen if node < len(self.ports)),
            more_ports=tuple(self.more_ports[node] for node in chosen if node < len(self.more_ports)),
        )

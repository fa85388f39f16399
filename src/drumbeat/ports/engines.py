"""The engines that run agents, and the listeners that agents call."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Protocol, runtime_checkable

from drumbeat.core.lifecycle.events import Loss
from drumbeat.core.scheduling.resource_needs import Slot
from drumbeat.launchers import without_ranks
from drumbeat.model.api.computes import Machine, Scale
from drumbeat.model.errors import UnreachableError
from drumbeat.model.plan import Plan
from drumbeat.model.unique_names import gang_name, unique_name

_MARK = "."


@dataclass(frozen=True)
class Gang:
    """N nodes for one attempt of a job. Its name is deterministic: starting it twice starts it once.

    secret: what the secrets of its nodes are derived from; like them it must not show in arguments, scripts or logs.
    servers: URLs that its agents call, tried in order. ca: the certificate (PEM) that they check these with, "" = they
    aren't https.
    """

    job: str
    attempt: int
    plan: Plan
    slots: tuple[Slot, ...]
    secret: str = field(repr=False)
    servers: tuple[str, ...]
    ca: str = ""
    first_version: int = 1
    """As `Job` has it."""
    has_node_secrets: bool = True
    """Whether each node has a secret of its own; False = a version of the server before that began the attempt."""
    taken: str = ""
    """The gang of an earlier job whose nodes this one has taken over; "" = it has its own."""

    @cached_property
    def node_plan(self) -> Plan:
        """The plan as each node gets it, whose size doesn't grow with the job."""
        return without_ranks(self.plan)

    def node_secret(self, node: int) -> str:
        """Returns what the agent of a node shows to the server, which believes it for that node alone."""
        return node_secret(self.secret, node) if self.has_node_secrets else self.secret

    @property
    def peer_secret(self) -> str:
        """The secret by which the nodes authenticate each other; the server accepts it from none of them."""
        return peer_secret(self.secret) if self.has_node_secrets else self.secret

    @property
    def unique_job(self) -> str:
        """The unique name of the job: folders that outlive it have it."""
        return unique_name(self.job, self.first_version)

    @property
    def name(self) -> str:
        """The name under which the engine knows it: no other gang has or had it, but those whose nodes it took over."""
        return self.taken or gang_name(self.unique_job, self.attempt)

    @property
    def root_name(self) -> str:
        """The name of the attempt's own folder in that of its node."""
        return f"root.{gang_name(self.unique_job, self.attempt)}" if self.taken else "root"


def node_secret(secret: str, node: int) -> str:
    """Returns the secret of a node, from that of its attempt."""
    return _derived(secret, f"node {node}")


def peer_secret(secret: str) -> str:
    """Returns what the nodes of an attempt share, from its secret."""
    return _derived(secret, "peers")


def _derived(secret: str, purpose: str) -> str:
    """Keeps what stands before the mark: the version that the job's record began with."""
    version, mark, key = secret.rpartition(_MARK)
    return version + mark + hmac.new(key.encode(), purpose.encode(), hashlib.sha256).hexdigest()


@dataclass(frozen=True)
class GangStatus:
    """The engine's status of a gang. word: its own, "" = it hasn't looked for this gang yet.

    gone: nodes that it knows to have ended, with a sentence each. cause: why they are gone. waits: the gang stands in
    the engine's own queue, or may be: no node counts as missing yet.
    """

    word: str
    gone: dict[int, str] = field(default_factory=dict[int, str])
    cause: Loss = Loss.LOST
    waits: bool = False
    notice: str = ""
    """That its nodes will be taken away, in a sentence; "" = the engine knows of no such plan."""
    starting: frozenset[int] = frozenset()
    """Nodes whose machine still prepares their agents: it pulls an image, mounts a volume. They aren't missed yet."""
    leaving: dict[int, str] = field(default_factory=dict[int, str])
    """Nodes whose machine says that it will be gone in a moment, with a sentence each."""


class NoMachinesError(UnreachableError):
    """The cluster answers, and has no machine for the compute. Its jobs wait, and say so."""


class Engine(Protocol):
    """Starts N agents, observes them, stops them, and describes machines. Nothing else.

    has_queue: it chooses machines and waits for them itself; what slots a gang has there says only how large it is.
    """

    name: str
    has_queue: bool

    def machines(self) -> list[Machine]:
        """Returns the machines, in a fixed order, as they were at the last look. Quick.

        Raises UnreachableError while none was ever seen, NoMachinesError where the last look showed none.
        """
        ...

    def server_addresses(self) -> list[str]:
        """Addresses of this machine at which the agents of this engine reach its server; [] = loopback."""
        ...

    def start(self, gang: Gang) -> str:
        """Starts the agents, all or none, and gives the engine's word for it. A gang of this name that runs already is
        left alone. Raises EngineError with a sentence when it can't be started; UnreachableError when a machine (its
        `where`) doesn't answer, so that another one may do.
        """
        ...

    def rendered(self, gang: Gang) -> str:
        """Returns what it would submit to a scheduler for the gang, as text; "" = nothing."""
        ...

    def observe(self, gang: Gang) -> GangStatus:
        """Returns the status of the gang. An agent that died is started again where the engine does so itself."""
        ...

    def stop(self, name: str) -> None:
        """Ends every process of a gang and gives its place back. None of it remains when this returns; a gang that
        isn't there is no error.
        """
        ...

    def sweep(self, wanted: Callable[[], set[str]]) -> list[str]:
        """Ends every gang of this compute but the wanted ones, by name, and gives the names of those ended: what an
        earlier server left, or a machine that went down.

        wanted: asked once it is known what is there, so that what another server starts meanwhile is left alone. It
        stays good: what is carried out after its own stop, by a machine or a scheduler, is ended when it is seen.
        """
        ...

    def close(self) -> None:
        """The compute is no more, or the server ends with nothing unfinished on it: what the engine made for it is
        taken away. Twice is as once.
        """
        ...


@runtime_checkable
class ScaledEngine(Protocol):
    """Beside `Engine`: one whose number of machines changes, or may change."""

    def scale(self) -> Scale | None:
        """Returns the numbers in effect, None = they aren't known yet. Quick."""
        ...


@runtime_checkable
class ElasticEngine(Protocol):
    """Beside `Engine`: one whose machines drumbeat itself starts and stops.

    `machines` says of each how it is: OFF, PREPARING from `switch_on` until it can be used, LEAVING from `let_go` on.
    """

    def usual_start_s(self) -> float | None:
        """Returns how long a machine usually takes to start, None = none was started yet."""
        ...

    def switch_on(self, names: Sequence[str]) -> None:
        """Starts machines that are off; one that is on, or starts, is left alone."""
        ...

    def let_go(self, names: Sequence[str], *, is_leaving: bool) -> None:
        """Marks machines as leaving, or takes the mark off again: nothing is started on one that leaves."""
        ...

    def switch_off(self, names: Sequence[str]) -> None:
        """Switches machines off that are leaving, with everything on them."""
        ...


class AgentListeners(Protocol):
    """Listens for agents on other machines, by TLS and with only the agents' protocol."""

    @property
    def ca(self) -> str:
        """The CA's certificate (PEM), with which agents verify the server's."""
        ...

    def keep_certificate(self, file: Path, names: Collection[str]) -> None:
        """Writes the server's certificate for these names, with its key, to a file for another program; again when it
        is due for renewal. Raises EngineError, OSError.
        """
        ...

    def ips(self) -> Mapping[str, tuple[str, ...]]:
        """Returns the IP addresses on which it listens, by the name that agents call."""
        ...

    def require(self, address: str) -> None:
        """Raises EngineError or UnreachableError unless the server can listen on this address now."""
        ...

    def urls(self, addresses: Sequence[str]) -> tuple[str, ...]:
        """Listens on these addresses, and returns their URLs. Quick if it does so already.

        Raises EngineError if it can't listen on one of them, UnreachableError if that may pass by itself.
        """
        ...

    def awaits(self, address: str) -> bool:
        """Whether this is a name that `refresh` will listen on as soon as it has been resolved."""
        ...

    def refresh(self, names: Collection[str]) -> None:
        """Listens again on addresses that have come back, and on new addresses of names.

        names: those that computes use; no others are resolved. Doesn't wait for name servers.
        """
        ...

    def addresses(self) -> frozenset[str]:
        """Returns the addresses on which it listens, should listen, or would listen after a restart."""
        ...

    def close_unused(self, candidates: Collection[str], used: Collection[str]) -> None:
        """Closes and forgets the listeners on candidates that aren't used. candidates: some of `addresses`."""
        ...

"""What runs agents, and where they call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from drumbeat.core.life.events import Loss
from drumbeat.core.need import Slot
from drumbeat.protocol.plan import Plan


@dataclass(frozen=True)
class Machine:
    """A machine of a compute: what it has, whoever uses it now.

    word: the engine's own for how it is. unusable: why nothing may be started on it now, "" = it may be; what runs
    there already isn't touched by that. is_awaited: it was asked for the first time and hasn't answered yet.
    """

    name: str
    cpus: int
    gpus: tuple[str, ...] = ()
    memory_mib: int = 0
    word: str = ""
    unusable: str = ""
    is_awaited: bool = False


@dataclass(frozen=True)
class Gang:
    """N nodes for one attempt of a job. Its name is deterministic: starting it twice starts it once.

    secret: what its agents enrol with; it must not show in arguments, scripts or logs. servers: URLs that its agents
    call, tried in order. ca: the certificate (PEM) that they check these with, "" = they aren't https.
    """

    job: str
    attempt: int
    plan: Plan
    slots: tuple[Slot, ...]
    secret: str = field(repr=False)
    servers: tuple[str, ...]
    ca: str = ""

    @property
    def name(self) -> str:
        """The name under which the engine knows it."""
        return f"{self.job}.{self.attempt}"


@dataclass(frozen=True)
class Sighting:
    """What an engine says of a gang. word: its own, "" = it hasn't looked for this gang yet, and says nothing new.

    gone: nodes that it knows to have ended, with a sentence each. cause: why they are gone. waits: the gang stands in
    the engine's own queue, or may: nobody is to be missed yet.
    """

    word: str
    gone: dict[int, str] = field(default_factory=dict[int, str])
    cause: Loss = Loss.LOST
    waits: bool = False


class Engine(Protocol):
    """Starts N agents, says what became of them, stops them, tells about machines. Nothing else.

    has_queue: it chooses machines and waits for them itself; what slots a gang has there says only how large it is.
    """

    name: str
    has_queue: bool

    def machines(self) -> list[Machine]:
        """The machines that there are, in the same order each time, as they were when last looked at: it's quick."""
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
        """What it would hand to a scheduler for the gang, as text; "" = it hands nothing over."""
        ...

    def observe(self, gang: Gang) -> Sighting:
        """What is known of the gang. An agent that died is started again where the engine does so itself."""
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


class Doors(Protocol):
    """Listeners for agents on other machines: TLS, and nothing but the agents' protocol."""

    @property
    def ca(self) -> str:
        """The certificate (PEM) that agents check the server's own with."""
        ...

    def require(self, address: str) -> None:
        """Raises EngineError, UnreachableError unless it could be listened at this address now."""
        ...

    def urls(self, addresses: Sequence[str]) -> tuple[str, ...]:
        """Listens at these addresses, where it doesn't yet, and gives their URLs; quick when it does already.

        Raises EngineError when it can't listen at one of them, UnreachableError where that may pass by itself.
        """
        ...

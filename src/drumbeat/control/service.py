"""The door to the control room: what a server can ask for. Every call is safe from any thread."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from drumbeat.core.job import Slot
from drumbeat.ports import Artifacts, Machine, Record, Reservation, Store
from drumbeat.protocol.agent import AgentStatus, Directive
from drumbeat.protocol.plan import Plan
from drumbeat.protocol.process import ProcessSpec


@dataclass(frozen=True)
class Request:
    """What a client sends to submit or to plan a job.

    document: the job as a JSON-able mapping. source: the file it came from, for messages. key: makes sending it twice
    the same as once. experiment: used where the document names none. code: digest of the code's snapshot. inputs: for
    each input with a local path, `file:///…` or `snapshot:<sha256>`.
    """

    document: dict[str, object]
    key: str = ""
    source: str = "job"
    experiment: str = "default"
    code: str | None = None
    inputs: dict[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True)
class Preview:
    """What would run. processes: of every node, in rank order. staged, notes: sentences. queue: where it would wait."""

    plan: Plan
    processes: tuple[ProcessSpec, ...]
    staged: tuple[str, ...]
    queue: str
    notes: tuple[str, ...]


@dataclass(frozen=True)
class ComputeView:
    """A compute as a person sees it."""

    name: str
    engine: str
    machines: tuple[Machine, ...]
    held: tuple[Reservation, ...]
    waiting: int


class Control:
    """Submit, plan, cancel, hear agents. Refusals are `drumbeat.protocol.errors`."""

    store: Store
    artifacts: Artifacts

    def start(self) -> None:
        """Takes the lease, starts the loop's threads, and goes on with whatever is unfinished."""
        raise NotImplementedError

    def stop(self) -> None:
        """Ends the loop; jobs that run go on without it."""
        raise NotImplementedError

    def submit(self, request: Request) -> tuple[Record, bool]:
        """The job, durable; and whether it is new. Raises SpecError, RefusedError, ConflictError."""
        raise NotImplementedError

    def preview(self, request: Request) -> Preview:
        """What `submit` would run. Starts and writes nothing."""
        raise NotImplementedError

    def cancel(self, name: str, by: str) -> Record:
        """Asks a job to stop. Twice is the same as once; a job that has ended stays as it is (ConflictError)."""
        raise NotImplementedError

    def agent_said(self, job: str, attempt: int, node: int, secret: str, status: AgentStatus) -> Directive:
        """Hears an agent and tells it what to do. Raises UnauthorizedError, StaleError."""
        raise NotImplementedError

    def directive(self, job: str, attempt: int, node: int) -> Directive:
        """What the agent of a node should be doing now. Raises StaleError, NotFoundError."""
        raise NotImplementedError

    def admit_agent(self, job: str, attempt: int, secret: str) -> None:
        """Checks an agent's secret for its other calls. Raises UnauthorizedError, StaleError when replaced or ended."""
        raise NotImplementedError

    def subscribe(self, heard: Callable[[str], None]) -> Callable[[], None]:
        """Calls `heard(job)` from any thread after each change of a job or its logs; gives the way to unsubscribe."""
        raise NotImplementedError

    def log_arrived(self, job: str) -> None:
        """Tells the subscribers that a job's logs have grown."""
        raise NotImplementedError

    def computes(self) -> list[ComputeView]:
        """The computes, who holds their slots, and how many jobs wait."""
        raise NotImplementedError

    def has_unfinished_work(self) -> bool:
        """Whether any job or effect is unfinished: the server mustn't stop itself then."""
        raise NotImplementedError


__all__ = ["ComputeView", "Control", "Preview", "Request", "Slot"]

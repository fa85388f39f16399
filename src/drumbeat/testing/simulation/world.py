"""The world of a simulation: a server that can be killed at any fault point, one machine, one clock."""

from __future__ import annotations

from dataclasses import dataclass, field

from drumbeat.control.service import Control, Request, Setting
from drumbeat.core.states import State
from drumbeat.ports import Gang, Machine, PendingEffect, Sighting, StoredFile
from drumbeat.protocol import faults
from drumbeat.protocol.agent import AgentStatus
from drumbeat.protocol.errors import DrumbeatError, EngineError, StaleError
from drumbeat.testing.clock import FakeClock
from drumbeat.testing.memory_store import MemoryStore, Shelf
from drumbeat.testing.simulation.nodes import Node

CPUS = 6


class Killed(BaseException):
    """The server died here; only what the store has acknowledged is left."""


class Texts:
    """As much of `ports.Artifacts` as the control room uses."""

    def __init__(self) -> None:
        self.kept: dict[tuple[str, str], str] = {}

    def has_snapshot(self, digest: str) -> bool:
        """Everything was uploaded."""
        return bool(digest)

    def write_text(self, job: str, path: str, text: str) -> None:
        """Kept for ever."""
        self.kept[job, path] = text

    def files(self, job: str) -> list[StoredFile]:
        """By path."""
        return [StoredFile(path, len(text)) for (of, path), text in sorted(self.kept.items()) if of == job]


@dataclass
class Engine:
    """`ports.Engine` over played nodes. refusals: how many starts to come are refused, or fail without an answer."""

    name: str = "simulated"
    nodes: dict[str, list[Node]] = field(default_factory=dict[str, list[Node]])
    dead: dict[str, dict[int, str]] = field(default_factory=dict[str, dict[int, str]])
    starts: list[str] = field(default_factory=list[str])
    stops: list[str] = field(default_factory=list[str])
    ghosts: list[Node] = field(default_factory=list[Node])
    """Nodes that were cut off when their gang was stopped: they go on until they hear of it."""
    refusals: int = 0
    failures: int = 0

    def machines(self) -> list[Machine]:
        """One."""
        return [Machine("m", CPUS)]

    def start(self, gang: Gang) -> str:
        """Deterministic name: twice is once."""
        if self.failures:
            self.failures -= 1
            raise OSError("the engine doesn't answer")
        if gang.name in self.nodes:
            return "started"
        if self.refusals:
            self.refusals -= 1
            raise EngineError("no")
        self.starts.append(gang.name)
        self.nodes[gang.name] = [Node(gang, number) for number in range(gang.plan.nodes)]
        return "started"

    def observe(self, gang: Gang) -> Sighting:
        """What died is known."""
        return Sighting("running", dict(self.dead.get(gang.name, {})))

    def stop(self, name: str) -> None:
        """Everything of the gang ends that can be reached."""
        self.stops.append(name)
        for node in self.nodes.pop(name, []):
            if node.is_cut_off:
                self.ghosts.append(node)
            else:
                node.leave()


class World:
    """Everything that survives the server, and the server while it lives."""

    def __init__(self) -> None:
        self.clock, self.shelf, self.engine, self.texts = FakeClock(), Shelf(), Engine(), Texts()
        self.acknowledged: dict[str, str] = {}
        """Key of a submission to the job that was acknowledged for it."""
        self.cancels: set[str] = set()
        self.fuse: int | None = None
        """The server dies at this many fault points from now."""
        self.control: Control | None = None
        self.start_server()

    # --- the server -------------------------------------------------------------------------------------------
    def start_server(self) -> None:
        """A new process over the same database."""
        if self.control is None:
            store = MemoryStore(self.shelf, monotonic=self.clock.monotonic)
            self.control = Control(Setting(store, self.texts, {"local": self.engine}, self.clock, b"key"))  # pyright: ignore[reportArgumentType]
            self.control.open()

    def kill_server(self) -> None:
        """Whatever it had in memory is gone."""
        self.control, self.fuse = None, None

    def passed(self, _point: str) -> None:
        """The hook of every fault point."""
        if self.fuse is not None:
            self.fuse -= 1
            if self.fuse <= 0:
                raise Killed

    def ask(self, what: str, *arguments: object) -> object:
        """Calls a method of this world that talks to the server, which may be away, may refuse, or may die of it."""
        if self.control is None:
            return None
        faults.hook = self.passed
        try:
            return getattr(self, f"_{what}")(self.control, *arguments)
        except Killed:
            self.kill_server()
        except (DrumbeatError, OSError):
            return None
        finally:
            faults.hook = None
        return None

    # --- what the server is asked -----------------------------------------------------------------------------
    def _submit(self, control: Control, key: str, document: dict[str, object]) -> None:
        record, _ = control.submit(Request(document, key=key))
        self.acknowledged[key] = record.job.name

    def _cancel(self, control: Control, name: str) -> None:
        control.cancel(name, "ada")
        self.cancels.add(name)

    def _sync(self, control: Control, node: Node, status: AgentStatus) -> None:
        """Says `status`, and obeys what comes back, unless it is an old message whose answer nobody waits for."""
        gang = node.gang
        try:
            told = control.agent_said(gang.job, gang.attempt, node.number, gang.secret, status)
        except StaleError:
            node.leave()
            return
        if status.serial == node.serial and not node.has_left:
            node.obey(told)

    def _effect(self, control: Control, pending: PendingEffect) -> None:
        control.effects.carry_out(pending)

    def _place(self, control: Control) -> None:
        if control.loop.must_place:
            control.loop.place()

    def _tick(self, control: Control) -> None:
        control.loop.tick()

    def _watch(self, control: Control, name: str) -> None:
        record = control.loop.jobs.get(name)
        if record is not None and record.job.state is not State.QUEUED:
            control.watch.look_after(record.job)

    # --- looking around ---------------------------------------------------------------------------------------
    def nodes(self) -> list[Node]:
        """Every node that is there, those first that shouldn't be any more."""
        nodes = [*self.engine.ghosts, *(node for nodes in self.engine.nodes.values() for node in nodes)]
        return [node for node in nodes if not node.has_left]

    def outbox(self) -> list[PendingEffect]:
        """What the server would hand out: of each job the first."""
        first: dict[str, PendingEffect] = {}
        for pending in self.shelf.effects.values():
            first.setdefault(pending.job, pending)
        return list(first.values())

    def jobs(self) -> list[str]:
        """Names of all jobs, oldest first."""
        return list(self.shelf.records)

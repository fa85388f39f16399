"""An engine without processes: it remembers what it was asked for, and says of its nodes what a test tells it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from drumbeat.model.api.computes import Machine
from drumbeat.model.errors import DrumbeatError, EngineError
from drumbeat.ports.engines import Gang, GangStatus


@dataclass
class FakeEngine:
    """Passes as `ports.Engine`. refuses: the sentence that `start` fails with. fails: what it raises, one each time.

    gone: node to sentence, by gang.
    """

    cpus: int = 4
    gpus: tuple[str, ...] = ()
    name: str = "fake"
    has_queue: bool = False
    refuses: str = ""
    fails: list[DrumbeatError] = field(default_factory=list[DrumbeatError])
    gangs: dict[str, Gang] = field(default_factory=dict[str, Gang])
    started: list[str] = field(default_factory=list[str])
    stopped: list[str] = field(default_factory=list[str])
    is_closed: bool = False
    gone: dict[str, dict[int, str]] = field(default_factory=dict[str, dict[int, str]])
    changed: threading.Condition = field(default_factory=threading.Condition)

    def machines(self) -> list[Machine]:
        """One machine."""
        return [Machine("m", self.cpus, self.gpus)]

    def server_addresses(self) -> list[str]:
        """Nobody calls."""
        return []

    def start(self, gang: Gang) -> str:
        """Twice is the same as once."""
        if self.refuses:
            raise EngineError(self.refuses)
        if self.fails:
            raise self.fails.pop(0)
        with self.changed:
            if gang.name not in self.gangs:
                self.started.append(gang.name)
            self.gangs[gang.name] = gang
            self.changed.notify_all()
        return "started"

    def rendered(self, gang: Gang) -> str:
        """Nothing is handed over."""
        del gang
        return ""

    def observe(self, gang: Gang) -> GangStatus:
        """What the test set in `gone`."""
        return GangStatus("running", dict(self.gone.get(gang.name, {})))

    def sweep(self, wanted: Callable[[], set[str]]) -> list[str]:
        """Ends all the others."""
        there = set(self.gangs)
        surplus = sorted(there - wanted())
        for name in surplus:
            self.stop(name)
        return surplus

    def stop(self, name: str) -> None:
        """A gang that isn't there is no error."""
        with self.changed:
            self.gangs.pop(name, None)
            self.stopped.append(name)
            self.changed.notify_all()

    def close(self) -> None:
        """Remembers it."""
        self.is_closed = True

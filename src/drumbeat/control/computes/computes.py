"""The computes that there are: those that wiring gives, and those that people make; each with its engine and machines.

An engine that can't be made keeps nothing from starting: its compute is listed with the reason, and jobs wait for it.
What can block (making an engine, closing it) runs on the caller's thread or on one of its own, never on the loop's.
"""

from __future__ import annotations

import logging
import shutil
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from drumbeat.control.computes.broken_engine import Unmade
from drumbeat.control.loop.loop import Loop
from drumbeat.dialect.compute.computes import Compute as Spec
from drumbeat.dialect.compute.computes import compute_from
from drumbeat.dialect.reading.problems import nearest
from drumbeat.dialect.reading.writer import to_dict
from drumbeat.launch.containers import CONTAINER_ENGINES
from drumbeat.ports import Engine, Machine
from drumbeat.protocol.errors import ConflictError, DrumbeatError, NotFoundError, RefusedError

log = logging.getLogger(__name__)

LOOK_S = 1.0
"""How often machines are looked at, and other servers' computes."""

AGAIN_S = 30.0
"""How long after a failure an engine is tried to be made again."""

FIRST_S = 10.0
"""How long after its engine was made a job waits for machines that haven't answered at all."""

SETTLE_S = 20.0
"""How long a compute waits, before it is said to be in use, for jobs that have ended to give their slots back."""

EngineMaker = Callable[[Spec], Engine]
"""Makes the engine of a compute that a person described. Raises EngineError, RefusedError."""


def _nothing() -> None:
    """The server is alone."""


def no_engines(spec: Spec) -> Engine:
    """The maker where there is none."""
    raise RefusedError(f"computes of type {spec.type} aren't supported here", where="type")


@dataclass(frozen=True)
class Known:
    """A compute. document: what a person wrote, None where wiring gave the engine.

    spec: the document, where it can be read. tried_at: when its engine was made or wasn't, by the monotonic clock.
    """

    engine: Engine
    document: dict[str, object] | None = None
    spec: Spec | None = None
    machines: tuple[Machine, ...] = ()
    tried_at: float = 0.0
    problem: str = ""
    """Why its machines couldn't be looked at."""

    @property
    def trouble(self) -> str:
        """Why no job can start there whatever is free; "" = some can."""
        if isinstance(self.engine, Unmade):
            return self.engine.why
        if any(machine.cpus for machine in self.machines):
            return ""
        said = "; ".join(f"{one.name}: {one.unusable}" for one in self.machines if one.unusable)
        return self.problem or said or "none of its machines is known yet"

    @property
    def is_awaited(self) -> bool:
        """Whether machines may yet be heard of for the first time: nobody knows what the compute has."""
        is_unheard = not self.machines and not self.problem and not isinstance(self.engine, Unmade)
        return is_unheard or any(one.is_awaited for one in self.machines)

    @property
    def prepare(self) -> str:
        """What each node runs before the ranks of a job, "" = nothing."""
        return (self.spec.prepare or "") if self.spec else ""

    def path_first(self, own: str) -> tuple[str, ...]:
        """Folders of programs that ranks on it find first. own: the server's."""
        path = own if self.document is None else self.spec.path_first(own) if self.spec else ""
        return (path,) if path else ()


@dataclass(eq=False)
class Computes(Mapping[str, Engine]):
    """Name to engine, and all that is known of it. The loop is told of each change."""

    loop: Loop
    given: Mapping[str, Engine]
    make: EngineMaker
    look_around: Callable[[], None] = _nothing
    """What servers that share a store do after each look: see `calling`."""
    _known: dict[str, Known] = field(default_factory=dict[str, Known])
    _furnished: dict[str, Known] = field(default_factory=dict[str, Known])
    """What the loop has been told of."""
    _has_swept: bool = False
    _changing: threading.Lock = field(default_factory=threading.Lock)
    """Held by whoever changes what is known; readers take what is there."""
    _stopping: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    # --- a mapping to engines -----------------------------------------------------------------------------------
    def __getitem__(self, name: str) -> Engine:
        return self._known[name].engine

    def __iter__(self) -> Iterator[str]:
        return iter(dict(self._known))

    def __len__(self) -> int:
        return len(self._known)

    def all(self) -> Mapping[str, Known]:
        """Everything that is known now, by name."""
        return self._known

    def known(self, name: str) -> Known:
        """All that is known of a compute. Raises NotFoundError."""
        found = self._known.get(name)
        if found is None:
            raise no_compute(name, self)
        return found

    def await_machines(self, name: str) -> None:
        """Until each machine of a compute that is new here has answered, or has had its time to."""
        while self._is_awaited(name) and not self._stopping.wait(0.05):
            pass

    def _is_awaited(self, name: str) -> bool:
        one, told = self._known.get(name), self._furnished.get(name)
        if one is None or self._now() >= one.tried_at + FIRST_S:
            return False
        # What is known is furnished a moment later, and jobs are sized by that.
        return one.is_awaited or told is None or told.is_awaited or told.document != one.document

    def without_containers(self) -> frozenset[str]:
        """Computes that can't run containers, as far as is known here: of this machine only."""
        has_engine = any(shutil.which(program) for program in CONTAINER_ENGINES)
        return frozenset() if has_engine else frozenset(self.given)

    # --- its life -----------------------------------------------------------------------------------------------
    def open(self) -> None:
        """Makes the engines of what is stored, and looks at all machines once."""
        self._known = {name: Known(engine) for name, engine in self.given.items()}
        self.look()

    def sweep(self) -> None:
        """What an earlier server or a crash of a machine left is ended: a gang that holds no slots is nobody's."""
        self._has_swept = True
        for name, engine in self.items():
            self._sweep(name, engine)

    def _sweep(self, name: str, engine: Engine) -> None:
        try:
            engine.sweep(lambda: self._wanted(name))
        except Exception as error:  # noqa: BLE001 (it may have been deleted meanwhile)
            log.warning("what is left on compute %s can't be ended: %s", name, error)

    def _sweep_soon(self, name: str, engine: Engine) -> None:
        """What is made late: at the server's start all are swept at once."""
        if self._has_swept:
            threading.Thread(target=self._sweep, args=[name, engine], name="sweeping", daemon=True).start()

    def _wanted(self, compute: str) -> set[str]:
        """Gangs that hold slots: each does from before its start until it has ended."""
        return {f"{held.job}.{held.attempt}" for held in self.loop.store.reservations(compute)}

    def start(self) -> None:
        """Goes on looking, on a thread of its own."""
        self._thread = threading.Thread(target=self._run, name="computes", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Looks no more."""
        self._stopping.set()
        if self._thread:
            self._thread.join(timeout=2)

    def close_idle(self) -> None:
        """The server ends: engines of computes that people made take away what they made, if nothing is unfinished."""
        for name, one in self._known.items():
            if one.document is not None and not self._users(name):
                _close(name, one.engine)

    def _run(self) -> None:
        while not self._stopping.wait(LOOK_S):
            try:
                self.look()
                self.look_around()
            except Exception:
                if not self._stopping.is_set():
                    log.exception("the computes could not be looked at; trying again")

    def look(self) -> None:
        """Takes over what was made and removed elsewhere, and looks at all machines."""
        with self._changing:
            self._look()

    def _look(self) -> None:
        stored = self.loop.store.computes()
        known = {name: one for name, one in self._known.items() if one.document == stored.get(name)}
        for name in self._known.keys() - known.keys():  # Another server has removed it, or made it anew.
            _close(name, self._known[name].engine)
        for name, document in stored.items():
            if name not in self.given and self._is_due(known.get(name)):
                known[name] = self._made_or_not(name, document)
                self._sweep_soon(name, known[name].engine)
        self._publish({name: self._looked_at(name, one) for name, one in known.items()})

    def _is_due(self, one: Known | None) -> bool:
        """Whether an engine is to be made."""
        if one is None:
            return True
        return isinstance(one.engine, Unmade) and self._now() - one.tried_at >= AGAIN_S

    def _made_or_not(self, name: str, document: dict[str, object]) -> Known:
        spec = None
        try:
            spec = compute_from(document, f"compute {name}")
            engine = self.make(spec)
        except Exception as error:  # noqa: BLE001 (one compute mustn't keep the server from the others)
            log.warning("compute %s can't be used: %s", name, error)
            engine = Unmade(str(document.get("type", "?")), _sentence(error))
        return Known(engine, document, spec, tried_at=self._now())

    def _looked_at(self, name: str, one: Known) -> Known:
        try:
            return replace(one, machines=tuple(one.engine.machines()), problem="")
        except Exception as error:  # noqa: BLE001 (what was seen last stays)
            log.warning("the machines of compute %s can't be looked at: %s", name, error)
            return replace(one, problem=_sentence(error))

    def _publish(self, known: dict[str, Known]) -> None:
        self._known = known
        machines = {name: list(one.machines) for name, one in known.items()}
        troubles = {name: one.trouble for name, one in known.items() if one.trouble}
        self.loop.with_queue = frozenset(name for name, one in known.items() if one.engine.has_queue)
        if (machines, troubles) != (self.loop.machines, self.loop.troubles):
            self.loop.call(lambda: self.loop.furnish(machines, troubles))
        self._furnished = known

    def _now(self) -> float:
        return self.loop.clock.monotonic()

    # --- making and removing ------------------------------------------------------------------------------------
    def create(self, spec: Spec) -> bool:
        """Makes a compute, and says whether it is new. The same content again is the same success.

        Raises ConflictError when the name is taken: by a compute that jobs use, by an alias; and whatever the engine's
        maker raises.
        """
        document = to_dict(spec)
        with self._changing:
            self._look()
            self._require_free(spec.name)
            old = self._known.get(spec.name)
            if old and old.document == document and not isinstance(old.engine, Unmade):
                return False
            if old and old.document != document:
                self._withdraw(spec.name, old, "it's being made anew")
            self._put(spec, document, old)
        return old is None

    def _require_free(self, name: str) -> None:
        if name in self.given:
            raise ConflictError(f"compute {name} is always there", fix="Give yours another name.")
        target = self.loop.store.aliases().get(("compute", name))
        if target is not None:
            fix = f"Give it another name, or take the alias out: drumbeat alias remove compute {name}"
            raise ConflictError(f"{name} is an alias here: jobs that name it go to {target}", fix=fix)

    def _put(self, spec: Spec, document: dict[str, object], old: Known | None) -> None:
        engine: Engine | None = None
        try:
            engine = self.make(spec)
            self.loop.store.set_compute(spec.name, document)
        except BaseException:
            if engine:
                _close(spec.name, engine)
            self._bring_back(spec.name, old)
            raise
        new = Known(engine, document, spec, tried_at=self._now())
        self._sweep_soon(spec.name, engine)
        self._publish({**self._known, spec.name: self._looked_at(spec.name, new)})

    def delete(self, name: str) -> None:
        """Removes a compute. Raises NotFoundError; ConflictError while jobs use it; EngineError when what its engine
        made can't be taken away, and then the compute stays.
        """
        with self._changing:
            self._look()
            old = self.known(name)
            if name in self.given:
                raise ConflictError(f"compute {name} is always there and can't be deleted")
            self._withdraw(name, old, "it's being deleted")
            try:
                self.loop.store.set_compute(name, None)
            except BaseException:
                self._bring_back(name, old)
                raise
            self._publish({other: one for other, one in self._known.items() if other != name})

    def _withdraw(self, name: str, old: Known, why: str) -> None:
        """From now on no job starts there, and what its engine made is gone; or all is as before."""
        self._settle(name)
        self.loop.call(lambda: self._shut(name, why))
        try:
            old.engine.close()
        except BaseException:
            self._publish(self._known)
            raise

    def _settle(self, name: str) -> None:
        """Jobs that have just ended have a while to give their slots back."""
        end = self._now() + SETTLE_S
        while self._users(name) and not self._unfinished(name) and self._now() < end:
            self._stopping.wait(0.05)

    def _shut(self, name: str, why: str) -> None:
        users = self._users(name)
        if users:
            raise ConflictError(f"compute {name} is used by {_some(users)}", fix="Wait for them, or cancel them.")
        self.loop.furnish(self.loop.machines, {**self.loop.troubles, name: why})

    def _bring_back(self, name: str, old: Known | None) -> None:
        """What was withdrawn is made anew as it was."""
        if old and old.document is not None:
            made = self._made_or_not(name, old.document)
            self._sweep_soon(name, made.engine)
            self._publish({**self._known, name: self._looked_at(name, made)})

    def _users(self, name: str) -> list[str]:
        """Jobs that aren't finished there, or whose slots aren't given back yet."""
        return sorted(self._unfinished(name) | {one.job for one in self.loop.store.reservations(name)})

    def _unfinished(self, name: str) -> set[str]:
        return {one.job.name for one in self.loop.store.unfinished() if one.job.plan.compute == name}


def no_compute(name: str, there: Mapping[str, Engine]) -> NotFoundError:
    """What is raised for a name that no compute has."""
    what = f"there is no compute {name}; there is {', '.join(sorted(there))}"
    return NotFoundError(what, fix=nearest(name, sorted(there)) or "Make it: drumbeat compute create -f FILE")


def _close(name: str, engine: Engine) -> None:
    try:
        engine.close()
    except Exception:
        log.exception("what compute %s made could not be taken away", name)


def _sentence(error: Exception) -> str:
    if isinstance(error, DrumbeatError):
        return f"{error.what}. {error.fix}".removesuffix(".") if error.fix else error.what
    return f"{type(error).__name__}: {error}"


def _some(names: list[str], most: int = 3) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")

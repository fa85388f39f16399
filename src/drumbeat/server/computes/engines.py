"""The engines of all computes, those that wiring gives and those of computes that users created, with their machines.

An engine that can't be created doesn't affect the others: its compute is listed with the reason, and jobs wait for it.
Calls that may block (creating or closing an engine) run on the caller's or another thread, never on the loop's.
"""

from __future__ import annotations

import logging
import shutil
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from drumbeat.core.lifecycle.events import StopGang
from drumbeat.jobfile.compute.compute_keys import ScaledCompute
from drumbeat.jobfile.compute.computes import Compute as Spec
from drumbeat.jobfile.compute.computes import compute_from
from drumbeat.jobfile.reading.error_messages import nearest
from drumbeat.jobfile.reading.writer import to_dict
from drumbeat.launchers.container_command import CONTAINER_ENGINES
from drumbeat.model.errors import ConflictError, DrumbeatError, NotFoundError, RefusedError
from drumbeat.model.plurals import name_some
from drumbeat.model.unique_names import gang_name, parse_gang_name
from drumbeat.ports.engines import Engine, NoMachinesError, ScaledEngine
from drumbeat.server.computes.broken_engine import BrokenEngine
from drumbeat.server.computes.compute_state import ComputeState, followed, is_same_but_for_scale, machine_cap
from drumbeat.server.loop.loop import Loop
from drumbeat.server.loop.placer import Supply
from drumbeat.server.resources.aliases import read_aliases
from drumbeat.server.resources.records import Resource

log = logging.getLogger(__name__)

KIND = "compute"
"""The kind of computes in the table of resources."""

RETRY_INTERVAL_S = 30.0
"""How long after a failure creating an engine is tried again."""

FIRST_ANSWER_TIMEOUT_S = 10.0
"""How long a job waits for machines that have never answered, from the creation of their engine."""

SETTLE_TIMEOUT_S = 20.0
"""How long deletion waits for ended jobs to release their slots before the compute counts as in use."""

EngineMaker = Callable[[Spec], Engine]
"""Creates the engine of a compute that a user described. Raises EngineError, RefusedError."""


def no_engines(spec: Spec) -> Engine:
    """Refuses every compute. The engine maker of a server without created computes."""
    raise RefusedError(f"computes of type {spec.type} aren't supported here", where="type")


@dataclass(eq=False)
class Engines(Mapping[str, Engine]):
    """The engines and states of all computes, by name. Every change is passed on to the loop."""

    loop: Loop
    given: Mapping[str, Engine]
    make: EngineMaker
    note_unknown: Callable[[str], None] = lambda _job: None
    """Is told of a job that is no longer known here, or not yet, whose gang was ended."""
    _states: dict[str, ComputeState] = field(default_factory=dict[str, ComputeState])
    _furnished: dict[str, ComputeState] = field(default_factory=dict[str, ComputeState])
    """The computes on which the loop places jobs."""
    _has_swept: bool = False
    _changing: threading.Lock = field(default_factory=threading.Lock)
    """Held while computes are changed. Readers use the last published value."""
    _stopping: threading.Event = field(default_factory=threading.Event)

    # --- a mapping to engines -----------------------------------------------------------------------------------
    def __getitem__(self, name: str) -> Engine:
        return self._states[name].engine

    def __iter__(self) -> Iterator[str]:
        return iter(dict(self._states))

    def __len__(self) -> int:
        return len(self._states)

    def all(self) -> Mapping[str, ComputeState]:
        """Every compute by name."""
        return self._states

    def state(self, name: str) -> ComputeState:
        """One compute. Raises NotFoundError."""
        state = self._states.get(name)
        if state is None:
            raise no_compute(name, self)
        return state

    def is_visible(self, place: str, name: str) -> bool:
        """Whether a path on this machine is the same files as on the nodes of a compute."""
        state = self._states.get(name)
        return state is not None and state.is_visible(place)

    def await_machines(self, name: str) -> None:
        """Waits until each machine of a new compute has answered, at most `FIRST_ANSWER_TIMEOUT_S`."""
        while self._is_awaited(name) and not self._stopping.wait(0.05):
            pass

    def _is_awaited(self, name: str) -> bool:
        one, furnished = self._states.get(name), self._furnished.get(name)
        if one is None or self._now() >= one.tried_at + FIRST_ANSWER_TIMEOUT_S:
            return False
        # Jobs are sized by the loop's copy, which is updated a moment later.
        return one.is_awaited or furnished is None or furnished.is_awaited or furnished.document != one.document

    def without_containers(self) -> frozenset[str]:
        """Returns the computes that can't run containers. Known of this machine only."""
        has_engine = any(shutil.which(program) for program in CONTAINER_ENGINES)
        return frozenset() if has_engine else frozenset(self.given)

    # --- its life -----------------------------------------------------------------------------------------------
    def open(self) -> None:
        """Creates the engines of the stored computes, and reads all machines once."""
        self._states = {name: ComputeState(engine) for name, engine in self.given.items()}
        self.look()

    def sweep(self) -> None:
        """Ends gangs that an earlier server or a crash left behind: those that hold no slots."""
        self._has_swept = True
        for name, engine in self.items():
            self._sweep(name, engine)

    def sweep_given(self) -> None:
        """Ends gangs on this machine whose attempts were given up by the active server on another machine."""
        for name, engine in self.given.items():
            self._sweep(name, engine)

    def _sweep(self, name: str, engine: Engine) -> None:
        try:
            for gang in engine.sweep(lambda: self._wanted(name)):
                self._note_ended(gang)
        except Exception as error:  # noqa: BLE001 (it may have been deleted meanwhile)
            log.warning("leftover gangs on compute %s can't be ended: %s", name, error)

    def _note_ended(self, gang: str) -> None:
        job, _ = parse_gang_name(gang)
        try:
            self.loop.record(job)
        except NotFoundError:
            self.note_unknown(job)

    def _sweep_soon(self, name: str, engine: Engine) -> None:
        """Sweeps an engine that was created after the sweep of the server's start."""
        if self._has_swept:
            threading.Thread(target=self._sweep, args=[name, engine], name="sweeping", daemon=True).start()

    def _wanted(self, compute: str) -> set[str]:
        """Returns the gangs that hold slots, as each does from before its start until its end."""
        held = {(one.job, one.attempt) for one in self.loop.store.reservations(compute)}
        taken = {
            (one.job, one.attempt): one.effect.gang
            for one in self.loop.store.outbox()
            if isinstance(one.effect, StopGang) and one.effect.gang
        }
        return {taken.get(one) or self._gang(*one) for one in held}

    def _gang(self, name: str, attempt: int) -> str:
        try:
            job = self.loop.record(name).job
        except NotFoundError:  # The job was just deleted: its gang has ended.
            return gang_name(name, attempt)
        return job.gang if job.attempt == attempt else gang_name(job.unique_name, attempt)

    def stop(self) -> None:
        """Ends every wait for machines and slots."""
        self._stopping.set()

    def close_idle(self) -> None:
        """Closes the engines of created computes without unfinished jobs, because the server stops."""
        for name, one in self._states.items():
            if one.document is not None and not self._users(name):
                _close(name, one.engine)

    def look(self) -> None:
        """Adopts the active server's new and deleted computes, and reads the machines of every compute."""
        with self._changing:
            self._look()

    def _look(self) -> None:
        stored = {one.name: dict(one.document) for one in self.loop.store.resources(KIND)}
        current = {name: followed(one, stored.get(name)) for name, one in self._states.items()}
        states = {name: one for name, one in current.items() if one.document == stored.get(name)}
        for name in self._states.keys() - states.keys():  # The active server has deleted or replaced it.
            _close(name, self._states[name].engine)
        for name, document in stored.items():
            if name not in self.given and self._is_due(states.get(name)):
                states[name] = self._made_or_not(name, document)
                self._sweep_soon(name, states[name].engine)
        self._publish({name: self._looked_at(name, one) for name, one in states.items()})

    def _is_due(self, one: ComputeState | None) -> bool:
        """Whether it is time to create an engine."""
        if one is None:
            return True
        return isinstance(one.engine, BrokenEngine) and self._now() - one.tried_at >= RETRY_INTERVAL_S

    def _made_or_not(self, name: str, document: dict[str, object]) -> ComputeState:
        spec = None
        try:
            spec = compute_from(document, f"compute {name}")
            engine = self.make(spec)
        except Exception as error:  # noqa: BLE001 (one compute mustn't keep the server from the others)
            log.warning("compute %s can't be used: %s", name, error)
            engine = BrokenEngine(str(document.get("type", "?")), _sentence(error))
        return ComputeState(engine, document, spec, tried_at=self._now())

    def _looked_at(self, name: str, one: ComputeState) -> ComputeState:
        try:
            machines = tuple(one.engine.machines())
            scale = one.engine.scale() if isinstance(one.engine, ScaledEngine) else None
            return replace(one.seen(machines, self._now()), scale=scale, problem="")
        except NoMachinesError as error:
            problem, machines = _sentence(error), ()
        except Exception as error:  # noqa: BLE001 (what was seen last stays)
            problem, machines = _sentence(error), one.machines
        if problem != one.problem:
            log.warning("the machines of compute %s can't be read: %s", name, problem)
        return replace(one.seen(machines, self._now()), problem=problem)

    def _publish(self, states: dict[str, ComputeState]) -> None:
        self._states = states
        supply = Supply(
            {name: one.machines for name, one in states.items()},
            {name: one.trouble for name, one in states.items() if one.trouble},
            frozenset(name for name, one in states.items() if one.engine.has_queue),
            {name: cap for name, one in states.items() if (cap := machine_cap(one)) is not None},
            frozenset(name for name, one in states.items() if getattr(one.spec, "share_machines", False)),
            {name: missing for name, one in states.items() if (missing := one.missing(self._now()))},
        )
        if supply != self.loop.supply:
            self.loop.call(lambda: self.loop.furnish(supply))
        self._furnished = states

    def _now(self) -> float:
        return self.loop.clock.monotonic()

    # --- making and removing ------------------------------------------------------------------------------------
    def create(self, spec: Spec) -> bool:
        """Creates a compute, and returns whether it is new. Idempotent.

        Raises ConflictError if the name is taken by an alias or by a compute that jobs use; also what the engine maker
        raises.
        """
        document = to_dict(spec)
        with self._changing:
            self._look()
            self._require_free(spec.name)
            old = self._states.get(spec.name)
            if old and old.document == document and not isinstance(old.engine, BrokenEngine):
                return False
            if old and is_same_but_for_scale(old.document, document) and not isinstance(old.engine, BrokenEngine):
                self._rescale(spec, document, old)
                return False
            if old and old.document != document:
                self._withdraw(spec.name, old, "it is being replaced")
            self._put(spec, document, old)
        return old is None

    def scale(self, name: str, changes: Mapping[str, object]) -> None:
        """Changes the minimum and maximum number of machines, and the idle time before one is switched off.

        Jobs may be using the compute. Raises NotFoundError, SpecError; RefusedError if its number of machines is fixed.
        """
        with self._changing:
            self._look()
            old = self.state(name)
            if not isinstance(old.spec, ScaledCompute):
                what = f"compute {name} ({old.engine.name}) has a fixed number of machines"
                raise RefusedError(what, fix="Only computes of type netlab and slurm can be scaled.")
            spec = compute_from({**to_dict(old.spec), **changes}, f"compute {name}")
            self._rescale(spec, to_dict(spec), old)

    def _rescale(self, spec: Spec, document: dict[str, object], old: ComputeState) -> None:
        self.loop.store.put_resource(Resource(KIND, spec.name, document=document))
        self._publish({**self._states, spec.name: replace(old, document=document, spec=spec)})

    def _require_free(self, name: str) -> None:
        if name in self.given:
            raise ConflictError(f"compute {name} is a built-in compute", fix="Give yours another name.")
        target = read_aliases(self.loop.store).get((KIND, name))
        if target is not None:
            fix = f"Give it another name, or remove the alias: drumbeat alias remove compute {name}"
            raise ConflictError(f"{name} is an alias of compute {target}", fix=fix)

    def _put(self, spec: Spec, document: dict[str, object], old: ComputeState | None) -> None:
        engine: Engine | None = None
        try:
            engine = self.make(spec)
            self.loop.store.put_resource(Resource(KIND, spec.name, document=document))
        except BaseException:
            if engine:
                _close(spec.name, engine)
            self._bring_back(spec.name, old)
            raise
        new = ComputeState(engine, document, spec, tried_at=self._now())
        self._sweep_soon(spec.name, engine)
        self._publish({**self._states, spec.name: self._looked_at(spec.name, new)})

    def delete(self, name: str) -> None:
        """Removes a compute. Raises NotFoundError; ConflictError while jobs use it; EngineError if its engine can't be
        closed, and then the compute stays.
        """
        with self._changing:
            self._look()
            old = self.state(name)
            if name in self.given:
                raise ConflictError(f"compute {name} is a built-in compute and can't be deleted")
            self._withdraw(name, old, "it's being deleted")
            try:
                self.loop.store.remove_resource(KIND, name)
            except BaseException:
                self._bring_back(name, old)
                raise
            self._publish({other: one for other, one in self._states.items() if other != name})

    def _withdraw(self, name: str, old: ComputeState, why: str) -> None:
        """Stops placing jobs there, and closes its engine. If that fails, everything is restored."""
        self._settle(name)
        self.loop.call(lambda: self._shut(name, why))
        try:
            old.engine.close()
        except BaseException:
            self._publish(self._states)
            raise

    def _settle(self, name: str) -> None:
        """Waits a while for jobs that have just ended to release their slots."""
        end = self._now() + SETTLE_TIMEOUT_S
        while self._users(name) and not self._unfinished(name) and self._now() < end:
            self._stopping.wait(0.05)

    def _shut(self, name: str, why: str) -> None:
        users = self._users(name)
        if users:
            raise ConflictError(f"compute {name} is used by {name_some(users)}", fix="Wait for them, or cancel them.")
        supply = self.loop.supply
        self.loop.furnish(replace(supply, troubles={**supply.troubles, name: why}))

    def _bring_back(self, name: str, old: ComputeState | None) -> None:
        """Restores a compute that was withdrawn."""
        if old and old.document is not None:
            made = self._made_or_not(name, old.document)
            self._sweep_soon(name, made.engine)
            self._publish({**self._states, name: self._looked_at(name, made)})

    def _users(self, name: str) -> list[str]:
        """Returns the jobs that are unfinished there or still hold slots."""
        return sorted(self._unfinished(name) | {one.job for one in self.loop.store.reservations(name)})

    def _unfinished(self, name: str) -> set[str]:
        return {one.job.name for one in self.loop.store.unfinished() if one.job.plan.compute == name}


def no_compute(name: str, engines: Mapping[str, Engine]) -> NotFoundError:
    """Returns the error for a name that no compute has."""
    what = f"there is no compute {name}; known computes: {', '.join(sorted(engines))}"
    return NotFoundError(what, fix=nearest(name, sorted(engines)) or "Create it: drumbeat compute create -f FILE")


def _close(name: str, engine: Engine) -> None:
    try:
        engine.close()
    except Exception:
        log.exception("the engine of compute %s could not be closed", name)


def _sentence(error: Exception) -> str:
    if isinstance(error, DrumbeatError):
        return f"{error.what}. {error.fix}".removesuffix(".") if error.fix else error.what
    return f"{type(error).__name__}: {error}"

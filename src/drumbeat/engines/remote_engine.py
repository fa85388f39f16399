"""What the engines have in common whose machines are reached by a command: netlab's namespaces, ssh's hosts.

Each machine is asked by a thread of its own, once for all gangs, by `python -m drumbeat.node.host`. One that doesn't
answer is unusable and nothing more: what runs there is not given up for it.
"""

from __future__ import annotations

import json
import logging
import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from drumbeat.core.lifecycle.events import Loss
from drumbeat.engines.enrolment import enrolment
from drumbeat.engines.remote_host import Answer, Host, KnownHost, machine_of
from drumbeat.engines.unwanted_gangs import Wanted, unwanted
from drumbeat.model.api.computes import Machine
from drumbeat.model.errors import DrumbeatError, EngineError, UnreachableError
from drumbeat.ports.engines import Gang, Sighting

log = logging.getLogger(__name__)

POLL_S = 1.0
"""How often machines are asked while gangs are on them."""
IDLE_POLL_S = 5.0
JUDGED_EVERY_S = 5.0
"""How often it is asked, for each machine, whether what is there is wanted: that asks the store."""
FIRST_LOOK_S = 3.0
"""How long the first question about the machines waits for their first answers."""


class RemoteEngine:
    """The `Engine` port over hosts. addresses: of this machine, where their agents call."""

    has_queue = False
    has_own_checkpoints = True
    """Whether checkpoints lie on the hosts' own disks, where a deleted job's stay; else its folder has them."""
    keeps_spares = False
    """Whether warm workers may outlive a job on the hosts."""
    leave_s = 2.0
    """How long agents that were told to leave are waited for."""

    def __init__(self, name: str, hosts: Sequence[Host], addresses: Callable[[], list[str]]) -> None:
        self.name = name
        self._addresses = addresses
        self._known = {host.name: KnownHost(host) for host in hosts}
        self._started: dict[str, float] = {}
        """Since when each gang is there for sure, by the monotonic clock: what was seen before says nothing of it."""
        self._wanted: Wanted | None = None
        """What the first sweep was told; before, whatever is there is left alone."""
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._pool = ThreadPoolExecutor(max_workers=min(32, len(hosts)), thread_name_prefix=f"{name}-ask")

    # --- machines ---------------------------------------------------------------------------------------------
    def machines(self) -> list[Machine]:
        """The hosts, as they last answered; one that never has has no CPUs."""
        self._begin()
        return [machine_of(known) for known in self._known.values()]

    def look_soon(self, machine: str) -> None:
        """Has a machine asked at once."""
        self._known[machine].must_look.set()

    def server_addresses(self) -> list[str]:
        """Where this machine is for them."""
        return self._addresses()

    # --- gangs ------------------------------------------------------------------------------------------------
    def start(self, gang: Gang) -> str:
        """Starts the agents on all machines at once, all or none."""
        self._begin()
        machines = sorted({slot.machine for slot in gang.slots})
        self._started[gang.name] = math.inf
        for name, known in self._known.items():
            if name in machines and gang.name in known.to_end:
                raise UnreachableError(f"{name}: what was started of {gang.name} before is still to be ended")
        lacks: dict[str, str] = {}
        asked = self._everywhere(machines, lambda known: lacks.update(self._start_on(known, gang)))
        failed = {name: error for name, error in asked.items() if error is not None}
        if failed or lacks:
            for machine in self._end(gang.name):
                self._known[machine].to_end.add(gang.name)
            if failed:
                raise self._not_started(*next(iter(failed.items())))
            # It comes back, and no machine is to be done without for it: the start is asked for again.
            self._started[gang.name] = math.inf  # Not to be missed meanwhile.
            raise UnreachableError("; ".join(f"{machine}: {why}" for machine, why in sorted(lacks.items())))
        self._started[gang.name] = time.monotonic()
        for machine in machines:
            self._known[machine].must_look.set()
        return "started"

    def _not_started(self, name: str, error: DrumbeatError) -> DrumbeatError:
        """UnreachableError where the machine is to blame and another one may do."""
        what = f"no agent could be started on {name}: {error.what}"
        if not isinstance(error, UnreachableError):
            return EngineError(what, where=error.where, fix=error.fix)
        self._known[name].trouble = _with_fix(error)
        return UnreachableError(what, where=name, fix=error.fix)

    def _start_on(self, known: KnownHost, gang: Gang) -> dict[str, str]:
        """What the machine has too little of for the moment."""
        host = known.host
        folder, checkpoints = self._place(known, host.folder), self._place(known, host.checkpoints)
        owner = gang.unique_job if self.has_own_checkpoints else gang.job
        texts = {
            slot.node: enrolment(
                gang,
                slot.node,
                root=f"{folder}/{gang.name}/{slot.node}/root",
                checkpoints=f"{checkpoints}/{owner}/checkpoints",
                address=host.address,
                keeps_spares=self.keeps_spares,
            )
            for slot in gang.slots
            if slot.machine == host.name
        }
        told = host.reach.ask("start", {"folder": folder, "gang": gang.name, "enrolments": texts})
        for why in told["stuck"].values():
            raise UnreachableError(why)
        if why := told.get("unusable"):
            raise UnreachableError(why)  # Another machine may do; its next looks say when it can be used again.
        return {host.name: told["lacks"]} if told["lacks"] else {}

    def rendered(self, gang: Gang) -> str:
        """Nothing is handed over."""
        del gang
        return ""

    def observe(self, gang: Gang) -> Sighting:
        """What the machines said when they were last asked."""
        self._begin()
        now = time.monotonic()
        since = self._started.setdefault(gang.name, now)  # Another server may have started it.
        gone: dict[int, str] = {}
        leaving: dict[int, str] = {}
        has_left = False
        silent: set[str] = set()
        for slot in gang.slots:
            known = self._known.get(slot.machine)
            why = f"machine {slot.machine} is no part of this compute any more" if known is None else ""
            if known is not None:
                silent |= {slot.machine} if known.trouble else set()
                why = _why_gone(known, gang.name, slot.node, since)
                has_left = has_left or known.has_left
                if known.leaves_now and not known.trouble:
                    leaving[slot.node] = f"machine {slot.machine} leaves: {known.leaves}"
                if since == now:
                    known.must_look.set()
            if why:
                gone[slot.node] = why
        cause = Loss.PREEMPTED if has_left else Loss.LOST
        return Sighting(_word(gone, silent, len(gang.slots)), gone, cause, leaving=leaving)

    def stop(self, name: str) -> None:
        """Ends it on every machine. One that doesn't answer ends it as soon as it does; nothing is started there
        until then. Raises UnreachableError where something can't be killed.
        """
        stuck = self._end(name)
        if stuck:
            raise UnreachableError("; ".join(f"{machine}: {why}" for machine, why in stuck.items()))

    def _end(self, name: str) -> dict[str, str]:
        """By machine what keeps it from being ended there."""
        stuck: dict[str, str] = {}
        asked = self._everywhere(list(self._known), lambda known: stuck.update(self._stop_on(known, name)))
        for machine, error in asked.items():
            if error is not None:
                self._known[machine].to_end.add(name)
                self._known[machine].must_look.set()
        if not stuck:
            self._started.pop(name, None)
        return stuck

    def _stop_on(self, known: KnownHost, name: str) -> dict[str, str]:
        if known.trouble:
            raise UnreachableError(known.trouble)  # Asking it would only take long; it's asked again all the time.
        request = {"folder": known.host.folder, "gang": name, "leave_s": self.leave_s}
        why = known.host.reach.ask("stop", request)["stuck"].get(name)
        return {known.host.name: why} if why else {}

    def sweep(self, wanted: Wanted) -> list[str]:
        """Ends the others where machines answer, and where one doesn't as soon as it does."""
        self._wanted = wanted
        for known in self._known.values():
            known.must_sweep = True
        self._everywhere(list(self._known), self._sweep_on)
        return sorted(set[str]().union(*(known.swept_since() for known in self._known.values())))

    def _sweep_on(self, known: KnownHost) -> None:
        """Nothing is placed there before. Whoever asks it first, the sweeper or the machine's own thread, does it."""
        with known.sweeping:
            if not known.must_sweep or self._wanted is None:
                return
            there = set(known.host.reach.ask("there", {"folder": known.host.folder})["gangs"])
            surplus = sorted(there - self._wanted())
            told = known.host.reach.ask("clear", {"folder": known.host.folder, "gangs": surplus})
            known.to_end |= told["stuck"].keys()
            known.swept |= set(surplus)
            known.must_sweep = False

    def close(self) -> None:
        """Asks no more."""
        self._closing.set()
        for known in self._known.values():
            known.must_look.set()
        self._pool.shutdown(wait=False, cancel_futures=True)

    # --- asking -----------------------------------------------------------------------------------------------
    def _everywhere(
        self, machines: Sequence[str], ask: Callable[[KnownHost], object]
    ) -> dict[str, DrumbeatError | None]:
        """Asks them side by side; gives each one's error, None = it did as asked."""

        def one(name: str) -> DrumbeatError | None:
            try:
                ask(self._known[name])
            except KeyError:
                return EngineError(f"machine {name} is no part of compute {self.name} any more")
            except DrumbeatError as error:
                return error
            except OSError as error:  # Of this machine: no file, process or memory is left.
                return UnreachableError(f"it can't be asked from here: {error}", where=name)
            return None

        return dict(zip(machines, self._pool.map(one, machines), strict=True))

    def _begin(self) -> None:
        with self._lock:
            new = [known for known in self._known.values() if not known.is_followed]
            for known in new:
                threading.Thread(target=self._follow, args=[known], name=f"{self.name}-look", daemon=True).start()
                known.is_followed = True
        deadline = time.monotonic() + FIRST_LOOK_S
        for known in new:
            known.has_looked.wait(max(0.0, deadline - time.monotonic()))

    def _follow(self, known: KnownHost) -> None:
        while not self._closing.is_set():
            self._look(known)
            known.has_looked.set()
            is_needed = self._started or known.gone or known.trouble or known.to_end
            known.must_look.wait(POLL_S if is_needed else IDLE_POLL_S)
            known.must_look.clear()

    def _look(self, known: KnownHost) -> None:
        try:
            self._sweep_on(known)
            began, ended, ours = time.monotonic(), set(known.to_end), {*self._started}
            request: dict[str, object] = {"folder": known.host.folder, "ended": sorted(ended)}
            if known.host.leaving is not None:
                request["leaving"] = known.host.leaving
            told = known.host.reach.ask("look", request)
        except DrumbeatError as error:
            known.trouble = _with_fix(error)
            return
        except Exception as error:  # Nobody else would look at it again.
            log.exception("machine %s can't be asked", known.host.name)
            known.trouble = f"it can't be asked from here: {error}"
            return
        known.to_end -= ended - told["stuck"].keys()
        known.stuck = next(iter(told["stuck"].values()), "")
        known.told = told
        known.gone = {gang: {int(node): why for node, why in nodes.items()} for gang, nodes in told["gone"].items()}
        known.seen_at, known.trouble = began, ""
        there = told["gone"].keys() - known.to_end
        if began >= known.judged_at + JUDGED_EVERY_S and (there or ours):
            known.judged_at = began
            self._judge(known, there, ours)

    def _judge(self, known: KnownHost, there: set[str], ours: set[str]) -> None:
        """Has ended what nobody wants, seen twice: one that is just being ended is there a moment longer."""
        leftovers = unwanted({*there, *ours}, self._wanted)
        for gang in leftovers:
            self._started.pop(gang, None)
        strange = leftovers & (there - ours)
        if strange & known.strange:
            known.must_sweep = True
            known.must_look.set()
        known.strange = strange

    @staticmethod
    def _place(known: KnownHost, folder: str) -> str:
        """An absolute path on the machine."""
        if not folder.startswith("~"):
            return folder
        if not known.told:
            raise UnreachableError(known.trouble)
        return str(known.told["home"]) + folder[1:]


def _with_fix(error: DrumbeatError) -> str:
    """What is wrong with a machine and what to do, as a part of a sentence."""
    return f"{error.what}. {error.fix}".rstrip(". ")


def _why_gone(known: KnownHost, gang: str, node: int, since: float) -> str:
    """Only a look that was begun since then tells."""
    if known.has_left:
        return f"machine {known.host.name} has left: {known.leaves}"
    if known.seen_at < since:
        return ""
    return known.gone.get(gang, {}).get(node, f"machine {known.host.name} knows nothing of it")


def _word(gone: Mapping[int, str], silent: set[str], nodes: int) -> str:
    parts = [f"{len(gone)} of {nodes} nodes gone"] if gone else []
    parts += [f"no answer from {', '.join(sorted(silent))}"] if silent else []
    return "; ".join(parts) or "running"


def understood(answer: bytes, said: bytes) -> Answer:
    """The answer of `drumbeat.node.host`, the last line: what a login shell reads may print something before it.

    Raises EngineError with its refusal, UnreachableError when there is none.
    """
    noise, _, last = answer.rpartition(b"\n")
    try:
        told: dict[str, Any] = json.loads(last)
    except ValueError:
        spoken = (noise + b"\n" + last + b"\n" + said).decode(errors="replace").strip().splitlines() or ["nothing"]
        raise UnreachableError(f"it gave no answer; the last it said: {spoken[-1]}") from None
    if "error" in told:
        raise EngineError(told["error"])
    return told

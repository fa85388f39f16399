"""The engine over machines that are reached by a command: netlab's namespaces, ssh's hosts.

Each machine has a thread that asks it about all gangs at once, by `python -m drumbeat.node.host`. A machine that
doesn't answer is unusable and nothing more: its gangs are not given up.
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
from drumbeat.engines.remote_host import Answer, Host, HostStatus, describe_machine
from drumbeat.engines.unwanted_gangs import Wanted, unwanted
from drumbeat.model.api.computes import Machine
from drumbeat.model.errors import DrumbeatError, EngineError, UnreachableError
from drumbeat.ports.engines import Gang, GangStatus

log = logging.getLogger(__name__)

POLL_S, IDLE_POLL_S = 1.0, 5.0
"""How often machines are asked while gangs are on them, and otherwise."""
JUDGED_EVERY_S = 5.0
"""How often the store is asked which of a machine's gangs are wanted."""
FIRST_LOOK_S = 3.0
"""How long the first call of `machines` waits for first answers."""


class RemoteEngine:
    """The `Engine` over hosts. addresses: this machine's addresses, which agents call."""

    has_queue = False
    has_own_checkpoints = True
    """Whether checkpoints are on the hosts' own disks, where those of deleted jobs stay; else
    in the server's folder.
    """
    keeps_spares = False
    """Whether warm workers may outlive a job on the hosts."""
    leave_s = 2.0
    """How long the engine waits for agents that are leaving."""

    def __init__(self, name: str, hosts: Sequence[Host], addresses: Callable[[], list[str]]) -> None:
        self.name = name
        self._addresses = addresses
        self._statuses = {host.name: HostStatus(host) for host in hosts}
        self._started: dict[str, float] = {}
        """When each gang had certainly been started, by the monotonic clock: earlier observations don't count."""
        self._servers: dict[str, tuple[str, ...]] = {}
        """The addresses at which the agents of each observed gang call: another server may have started it."""
        self._wanted: Wanted | None = None
        """The wanted gangs, as of the first sweep; before that, unknown gangs are left alone."""
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._pool = ThreadPoolExecutor(max_workers=min(32, len(hosts)), thread_name_prefix=f"{name}-ask")

    # --- machines ---------------------------------------------------------------------------------------------
    def machines(self) -> list[Machine]:
        """The hosts, as they last answered; a host that never answered has no CPUs."""
        self._begin()
        return [describe_machine(status) for status in self._statuses.values()]

    def look_soon(self, machine: str) -> None:
        """Asks a machine at once."""
        self._statuses[machine].must_look.set()

    def server_addresses(self) -> list[str]:
        """The addresses at which the hosts reach this machine."""
        return self._addresses()

    # --- gangs ------------------------------------------------------------------------------------------------
    def start(self, gang: Gang) -> str:
        """Starts the agents on all machines at once, all or none."""
        self._begin()
        machines = sorted({slot.machine for slot in gang.slots})
        self._started[gang.name] = math.inf
        for name, status in self._statuses.items():
            if name in machines and gang.name in status.to_end:
                raise UnreachableError(f"{name}: an earlier start of {gang.name} has not been ended yet")
        lacks: dict[str, str] = {}
        asked = self._everywhere(machines, lambda status: lacks.update(self._start_on(status, gang)))
        failed = {name: error for name, error in asked.items() if error is not None}
        if failed or lacks:
            for machine in self._end(gang.name):
                self._statuses[machine].to_end.add(gang.name)
            if failed:
                raise self._not_started(*next(iter(failed.items())))
            # The shortage is transient and no reason to avoid the machine: the start is repeated.
            self._started[gang.name] = math.inf  # Keeps the gang from being seen as missing meanwhile.
            raise UnreachableError("; ".join(f"{machine}: {why}" for machine, why in sorted(lacks.items())))
        self._started[gang.name] = time.monotonic()
        for machine in machines:
            self._statuses[machine].must_look.set()
        return "started"

    def _not_started(self, name: str, error: DrumbeatError) -> DrumbeatError:
        """The error of a start: UnreachableError where the machine is the cause and another one may do."""
        what = f"no agent could be started on {name}: {error.what}"
        if not isinstance(error, UnreachableError):
            return EngineError(what, where=error.where, fix=error.fix)
        self._statuses[name].trouble = _with_fix(error)
        return UnreachableError(what, where=name, fix=error.fix)

    def _start_on(self, status: HostStatus, gang: Gang) -> dict[str, str]:
        """Starts the gang's agents on a machine; returns what the machine lacks for the moment, by name."""
        host = status.host
        folder, checkpoints = self._place(status, host.folder), self._place(status, host.checkpoints)
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
        answer = host.reach.ask("start", {"folder": folder, "gang": gang.name, "enrolments": texts})
        for why in answer["stuck"].values():
            raise UnreachableError(why)
        if why := answer.get("unusable"):
            # Another machine may do; later observations show when this one is usable again.
            raise UnreachableError(why)
        return {host.name: answer["lacks"]} if answer["lacks"] else {}

    def rendered(self, gang: Gang) -> str:
        """Empty: nothing is submitted to a cluster."""
        del gang
        return ""

    def observe(self, gang: Gang) -> GangStatus:
        """The gang's state as of the last answers of its machines."""
        self._begin()
        now = time.monotonic()
        since = self._started.setdefault(gang.name, now)  # Another server may have started it.
        self._servers[gang.name] = gang.servers
        gone: dict[int, str] = {}
        leaving: dict[int, str] = {}
        has_left = False
        silent: set[str] = set()
        for slot in gang.slots:
            status = self._statuses.get(slot.machine)
            why = f"machine {slot.machine} is no longer part of this compute" if status is None else ""
            if status is not None:
                silent |= {slot.machine} if status.trouble else set()
                why = _why_gone(status, gang.name, slot.node, since)
                has_left = has_left or status.has_left
                if status.leaves_now and not status.trouble:
                    leaving[slot.node] = f"machine {slot.machine} leaves: {status.leaves}"
                if since == now:
                    status.must_look.set()
            if why:
                gone[slot.node] = why
        cause = Loss.PREEMPTED if has_left else Loss.LOST
        return GangStatus(_word(gone, silent, len(gang.slots)), gone, cause, leaving=leaving)

    def stop(self, name: str) -> None:
        """Ends the gang on every machine. A machine that doesn't answer ends it as soon as it answers; nothing is
        started there until then. Raises UnreachableError where a process can't be killed.
        """
        stuck = self._end(name)
        if stuck:
            raise UnreachableError("; ".join(f"{machine}: {why}" for machine, why in stuck.items()))

    def _end(self, name: str) -> dict[str, str]:
        """Ends the gang; returns what prevents its end, by machine."""
        stuck: dict[str, str] = {}
        asked = self._everywhere(list(self._statuses), lambda status: stuck.update(self._stop_on(status, name)))
        for machine, error in asked.items():
            if error is not None:
                self._statuses[machine].to_end.add(name)
                self._statuses[machine].must_look.set()
        if not stuck:
            self._started.pop(name, None)
            self._servers.pop(name, None)
        return stuck

    def _stop_on(self, status: HostStatus, name: str) -> dict[str, str]:
        if status.trouble:
            raise UnreachableError(status.trouble)  # A request would only time out; the machine's thread keeps asking.
        request = {"folder": status.host.folder, "gang": name, "leave_s": self.leave_s}
        why = status.host.reach.ask("stop", request)["stuck"].get(name)
        return {status.host.name: why} if why else {}

    def sweep(self, wanted: Wanted) -> list[str]:
        """Ends all other gangs: at once where machines answer, elsewhere as soon as they do."""
        self._wanted = wanted
        for status in self._statuses.values():
            status.must_sweep = True
        self._everywhere(list(self._statuses), self._sweep_on)
        return sorted(set[str]().union(*(status.swept_since() for status in self._statuses.values())))

    def _sweep_on(self, status: HostStatus) -> None:
        """Ends unwanted gangs on a machine; nothing is placed there before. Either the sweeper or the machine's own
        thread does it, whichever comes first.
        """
        with status.sweeping:
            if not status.must_sweep or self._wanted is None:
                return
            present = set(status.host.reach.ask("there", {"folder": status.host.folder})["gangs"])
            surplus = sorted(present - self._wanted())
            answer = status.host.reach.ask("clear", {"folder": status.host.folder, "gangs": surplus})
            status.to_end |= answer["stuck"].keys()
            status.swept |= set(surplus)
            status.must_sweep = False

    def close(self) -> None:
        """Stops asking the machines."""
        self._closing.set()
        for status in self._statuses.values():
            status.must_look.set()
        self._pool.shutdown(wait=False, cancel_futures=True)

    # --- asking -----------------------------------------------------------------------------------------------
    def _everywhere(
        self, machines: Sequence[str], ask: Callable[[HostStatus], object]
    ) -> dict[str, DrumbeatError | None]:
        """Calls `ask` for the machines in parallel; returns each one's error, None = success."""

        def one(name: str) -> DrumbeatError | None:
            try:
                ask(self._statuses[name])
            except KeyError:
                return EngineError(f"machine {name} is no longer part of compute {self.name}")
            except DrumbeatError as error:
                return error
            except OSError as error:  # This machine is out of files, processes or memory.
                return UnreachableError(f"it can't be asked from this machine: {error}", where=name)
            return None

        return dict(zip(machines, self._pool.map(one, machines), strict=True))

    def _begin(self) -> None:
        with self._lock:
            new = [status for status in self._statuses.values() if not status.is_followed]
            for status in new:
                threading.Thread(target=self._follow, args=[status], name=f"{self.name}-look", daemon=True).start()
                status.is_followed = True
        deadline = time.monotonic() + FIRST_LOOK_S
        for status in new:
            status.has_looked.wait(max(0.0, deadline - time.monotonic()))

    def _follow(self, status: HostStatus) -> None:
        while not self._closing.is_set():
            self._look(status)
            status.has_looked.set()
            is_needed = self._started or status.gone or status.trouble or status.to_end
            status.must_look.wait(POLL_S if is_needed else IDLE_POLL_S)
            status.must_look.clear()

    def _look(self, status: HostStatus) -> None:
        try:
            self._sweep_on(status)
            began, ended, ours = time.monotonic(), set(status.to_end), {*self._started}
            request: dict[str, object] = {"folder": status.host.folder, "ended": sorted(ended)}
            if status.host.leaving is not None:
                request["leaving"] = status.host.leaving
            new = {gang: at for gang, at in self._servers.copy().items() if status.announced.get(gang) != at}
            if new:
                request["servers"] = new
            answer = status.host.reach.ask("look", request)
        except DrumbeatError as error:
            status.trouble = _with_fix(error)
            return
        except Exception as error:  # This is the only thread that asks the machine.
            log.exception("machine %s can't be asked", status.host.name)
            status.trouble = f"it can't be asked from this machine: {error}"
            return
        status.announced = {gang: at for gang, at in {**status.announced, **new}.items() if gang in self._servers}
        status.to_end -= ended - answer["stuck"].keys()
        status.stuck = next(iter(answer["stuck"].values()), "")
        status.answer = answer
        status.gone = {gang: {int(node): why for node, why in nodes.items()} for gang, nodes in answer["gone"].items()}
        status.seen_at, status.trouble = began, ""
        present = answer["gone"].keys() - status.to_end
        if began >= status.judged_at + JUDGED_EVERY_S and (present or ours):
            status.judged_at = began
            self._judge(status, present, ours)

    def _judge(self, status: HostStatus, present: set[str], ours: set[str]) -> None:
        """Marks unwanted gangs for a sweep if they were seen twice: a gang that is being ended
        exists a moment longer.
        """
        leftovers = unwanted({*present, *ours}, self._wanted)
        for gang in leftovers:
            self._started.pop(gang, None)
            self._servers.pop(gang, None)
        strange = leftovers & (present - ours)
        if strange & status.strange:
            status.must_sweep = True
            status.must_look.set()
        status.strange = strange

    @staticmethod
    def _place(status: HostStatus, folder: str) -> str:
        """The absolute path of a folder on the machine."""
        if not folder.startswith("~"):
            return folder
        if not status.answer:
            raise UnreachableError(status.trouble)
        return str(status.answer["home"]) + folder[1:]


def _with_fix(error: DrumbeatError) -> str:
    """A machine's error and its fix, as part of a message."""
    return f"{error.what}. {error.fix}".rstrip(". ")


def _why_gone(status: HostStatus, gang: str, node: int, since: float) -> str:
    """Why a node is gone, "" = it isn't. Only an observation that began after `since` counts."""
    if status.has_left:
        return f"machine {status.host.name} has left: {status.leaves}"
    if status.seen_at < since:
        return ""
    return status.gone.get(gang, {}).get(node, f"machine {status.host.name} doesn't know it")


def _word(gone: Mapping[int, str], silent: set[str], nodes: int) -> str:
    parts = [f"{len(gone)} of {nodes} nodes gone"] if gone else []
    parts += [f"no answer from {', '.join(sorted(silent))}"] if silent else []
    return "; ".join(parts) or "running"


def understood(answer: bytes, output: bytes) -> Answer:
    """The answer of `drumbeat.node.host`: the last line, because a login shell's profile may print something before it.

    Raises EngineError with its refusal, UnreachableError without an answer.
    """
    noise, _, last = answer.rpartition(b"\n")
    try:
        result: dict[str, Any] = json.loads(last)
    except ValueError:
        spoken = (noise + b"\n" + last + b"\n" + output).decode(errors="replace").strip().splitlines() or ["nothing"]
        raise UnreachableError(f"it gave no answer; its last output: {spoken[-1]}") from None
    if "error" in result:
        raise EngineError(result["error"])
    return result

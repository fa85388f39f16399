"""The statuses of a node's services, from the states of its supervisor. One that ends while its ranks run is reported
to the user.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable

from drumbeat.launchers.services import has_process, log_file, services_on
from drumbeat.model.agent import NodeMessage, ServiceStatus
from drumbeat.model.plan import Plan, ServicePlan
from drumbeat.model.supervisor import SidecarExit, SupervisorState

_TAIL_BYTES = 4096
_MAX_LINE = 300


class ServiceStatuses:
    """The services of one node. remember: receives a message about each that ended by itself."""

    def __init__(self, plan: Plan, node: int, root: str, remember: Callable[[NodeMessage], None]) -> None:
        self._services, self._node, self._root = services_on(plan, node), node, root
        self._remember = remember
        self._problems: dict[tuple[int, str], str] = {}
        """The reported ends, by round and service."""

    def look(self, state: SupervisorState) -> tuple[ServiceStatus, ...]:
        """The statuses by a state of the supervisor."""
        if not self._services:
            return ()
        if state.running and not state.stopping:
            names = {one.name for one in self._services}
            for ended in state.sidecar_exits:
                key = (state.round, ended.name)
                if ended.name in names and key not in self._problems:
                    self._problems[key] = self._report(ended)
        return tuple(self._status(one, state) for one in self._services)

    def fail(self, number: int, why: str) -> None:
        """Records that no service of a round could be started."""
        for one in self._services:
            self._problems[number, one.name] = why
            self._remember(NodeMessage(f"service {one.name} on node {self._node}", f"service {one.name}: {why}"))

    def _status(self, service: ServicePlan, state: SupervisorState) -> ServiceStatus:
        is_running = service.name in state.sidecars if has_process(service) else bool(state.running)
        problem = "" if is_running or not state.running else self._problems.get((state.round, service.name), "")
        return ServiceStatus(service.name, is_running, problem)

    def _report(self, ended: SidecarExit) -> str:
        """Reports the end of a service, and returns it."""
        where = f"service {ended.name} on node {self._node}"
        problem = self._problem(ended)
        self._remember(NodeMessage(where, f"{where} {problem}"))
        return problem

    def _problem(self, ended: SidecarExit) -> str:
        if ended.error:
            return f"can't be started: {ended.error}"
        how = f"was ended by {_signal_name(ended.signal)}" if ended.signal else f"ended with exit code {ended.code}"
        last = last_line(f"{self._root}/{log_file(ended.name)}")
        return f"{how}: {last}" if last else how


def last_line(path: str) -> str:
    """The last non-empty line of a log, "" = none."""
    with contextlib.suppress(OSError), open(path, "rb") as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL_BYTES))
        lines = [line.strip() for line in file.read().decode(errors="replace").splitlines()]
        return next((line[:_MAX_LINE] for line in reversed(lines) if line), "")
    return ""


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"

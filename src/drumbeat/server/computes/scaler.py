"""The scaling of computes whose machines drumbeat starts and stops itself.

At each look `core/scheduling/autoscaling.py` decides from the current state, so an action that failed is decided again
at the next look.
"""

from __future__ import annotations

import logging
from datetime import timedelta

from drumbeat.core.scheduling import autoscaling
from drumbeat.core.scheduling.autoscaling import Limits, ScaledMachine, ScaleStep
from drumbeat.model.api.computes import NodeState
from drumbeat.ports.engines import ElasticEngine
from drumbeat.server.computes.compute_state import ComputeState
from drumbeat.server.computes.engines import Engines
from drumbeat.server.computes.node_states import NodeStates
from drumbeat.server.loop.loop import Loop
from drumbeat.server.loop.repeated_failures import RepeatedFailures

log = logging.getLogger(__name__)

DEFAULT_IDLE_TIME_S = 120.0
"""After this time without a job a machine is switched off if its compute sets no other time."""


class Scaler:
    """Starts machines that waiting jobs need, and stops idle ones."""

    def __init__(self, loop: Loop, engines: Engines, states: NodeStates) -> None:
        self._loop, self._engines, self._states = loop, engines, states
        self._failures = RepeatedFailures[str]()
        """Failures of computes that could not be scaled at the last look."""

    def look(self) -> None:
        """Decides for each compute with a variable number of machines, and carries the decision out."""
        has_acted = [self._scale(name, one) for name, one in self._engines.all().items()]
        if any(has_acted):
            self._engines.look()
            self._states.look()

    def _scale(self, name: str, one: ComputeState) -> bool:
        engine, limits = one.engine, scaling_limits(one)
        if not isinstance(engine, ElasticEngine) or limits is None or _is_fixed(one, limits):
            return False
        step = self._loop.call(lambda: self._decided(name, limits))
        if step == ScaleStep():
            return False
        log.info("scaling compute %s: %s", name, step)
        try:
            engine.let_go(step.let_go, is_leaving=True)
            engine.let_go(step.keep, is_leaving=False)
            engine.switch_on(step.switch_on)
            engine.switch_off(step.switch_off)
        except Exception as error:
            # This is tried again at each look, so repeated failures are logged once.
            if self._failures.is_new(name, error):
                log.exception("compute %s could not be scaled; trying again", name)
        else:
            self._failures.forget(name)
        return True

    def _decided(self, name: str, limits: Limits) -> ScaleStep:
        """Decides the next step. Only on the loop's thread."""
        supply, placer = self._loop.supply, self._loop.placer
        busy = self._states.busy(name)
        nodes: list[ScaledMachine] = []
        for machine in supply.machines.get(name, ()):
            seen = self._states.observed(name, machine, busy)
            nodes.append(ScaledMachine(machine.name, seen.state, seen.since, is_held=machine.name in busy))
        queue = placer.queue(name)
        expected = placer.expected(queue, supply.rooms(name), placer.holdings(name)) if queue.jobs else {}
        needed = {slot.machine for slots in expected.values() for slot in slots}
        needed |= self._loop.grower.needed(name, supply.rooms(name))
        return autoscaling.decide(limits, nodes, needed, self._loop.clock.now())


def scaling_limits(one: ComputeState) -> Limits | None:
    """Returns the limits in a compute's file, None = it sets none and its machines are always on."""
    spec, machines = one.spec, len(one.machines)
    if spec is None or not isinstance(one.engine, ElasticEngine):
        return None
    fewest = getattr(spec, "min_instances", None)
    most = getattr(spec, "max_instances", None) or machines
    idle_s = getattr(spec, "idle_time_before_scale_down", None)
    is_elastic = fewest is not None or most < machines
    idle_time = timedelta(seconds=DEFAULT_IDLE_TIME_S if idle_s is None else idle_s) if is_elastic else None
    return Limits(min(most, machines if fewest is None else fewest), most, idle_time)


def _is_fixed(one: ComputeState, limits: Limits) -> bool:
    """Whether all machines should be on, and all are."""
    moving = (NodeState.OFF, NodeState.LEAVING)
    return limits.fewest >= len(one.machines) and not any(machine.state in moving for machine in one.machines)

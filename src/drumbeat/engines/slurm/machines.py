"""The machines of a partition as Slurm last showed them: their states, how they are switched on and off, and how long
starts take.
"""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Mapping, Sequence

from drumbeat.core.scheduling.autoscaling import StartTimes
from drumbeat.engines.slurm import node_states, pending_reasons, power_saving
from drumbeat.engines.slurm.client import Slurm, SlurmJob, SlurmNode
from drumbeat.engines.slurm.job_states import Stage
from drumbeat.engines.slurm.loss_reasons import preemption_notice
from drumbeat.engines.slurm.node_states import NodeWord
from drumbeat.engines.slurm.power_saving import Power
from drumbeat.jobfile.compute.slurm import SlurmCompute
from drumbeat.model.api.computes import Machine, Scale
from drumbeat.model.errors import EngineError
from drumbeat.ports.engines import NoMachinesError

MACHINES_S, ELASTIC_MACHINES_S, POWER_S = 10.0, 3.0, 300.0
"""The maximum age of the list of machines, of the list while a job waits for machines to start, and of the settings."""


class Cluster:
    """The state of a partition. One thread polls; others read its last result."""

    def __init__(self, spec: SlurmCompute, slurm: Slurm) -> None:
        self._spec, self._slurm = spec, slurm
        self.nodes: list[SlurmNode] = []
        self._nodes_at = -math.inf
        self._meanings: dict[str, NodeWord] = {}
        """The states of the machines, by name."""
        self._power: Power | None = None
        self._power_at = -math.inf
        self._kept = 0
        """The number of machines that are never switched off."""
        self._preempted: dict[str, str] = {}
        """Running jobs whose nodes Slurm is about to take, by id, with the time that it reports."""
        self._start_times = StartTimes()
        self._starting: dict[str, float] = {}
        """Jobs whose machines are being started, by id, with the time since when."""

    # --- results ----------------------------------------------------------------------------------------------
    def machines(self) -> list[Machine]:
        """The machines, in Slurm's order. Raises NoMachinesError where the last poll showed none."""
        if not self.nodes and self._nodes_at > -math.inf:
            raise self._no_machines()
        return [self._machine(node) for node in self.nodes]

    def _no_machines(self) -> NoMachinesError:
        place = f"partition `{self._spec.partition}`" if self._spec.partition else "the default partition"
        left_out = " beside those that `exclude` names" if self._spec.exclude else ""
        fix = "`sinfo` lists the partitions; machines that are switched off are in it with `PrivateData=cloud`."
        return NoMachinesError(f"Slurm shows no machine in {place}{left_out}", fix=fix)

    def _machine(self, node: SlurmNode) -> Machine:
        cpus, gpus = self._spec.cpus_per_node, self._spec.gpus_per_node
        meaning = self._meanings[node.name]
        return Machine(
            node.name,
            node.cpus if cpus is None else cpus,
            tuple(str(n) for n in range(node.gpus if gpus is None else gpus)),
            node.memory_mib,
            word=node.state,
            unusable=node_states.unusable(node.state, node.why),
            state=meaning.state,
            why=meaning.why,
        )

    def scale(self) -> Scale | None:
        """The scaling limits of the partition; None while they are unknown."""
        if self._power is None:
            return None
        usual_s = self._start_times.usual_s()
        return power_saving.scale(self._power, [node.name for node in self.nodes], self._kept, usual_s)

    def word(self, job: SlurmJob) -> str:
        """Slurm's state of a job, with what it waits for."""
        reasons = {node.name: node.why for node in self.nodes}
        return pending_reasons.word(job, self._meanings, reasons, self._start_times.usual_s())

    def notice(self, job: SlurmJob) -> str:
        """The notice that Slurm is about to take the nodes of a running job, "" = it isn't."""
        if job.stage is not Stage.RUNS or self._power is None:
            return ""
        return preemption_notice(job.id, self._preempted.get(job.id, ""), self._power.grace_s)

    # --- looking ------------------------------------------------------------------------------------------------
    def look(self, jobs: Sequence[SlurmJob], now: float) -> bool:
        """Polls the machines if it is due; returns whether it did. jobs: this server's, as of the last poll."""
        is_elastic = self._power is not None and self._power.suspend_time_s is not None
        is_awaited = any(job.stage is Stage.WAITS for job in jobs)
        if self.nodes and now - self._nodes_at <= (ELASTIC_MACHINES_S if is_elastic and is_awaited else MACHINES_S):
            return False
        left_out = set(self._slurm.names(self._spec.exclude)) if self._spec.exclude else set[str]()
        nodes = [node for node in self._slurm.nodes(self._spec.partition or "") if node.name not in left_out]
        self._look_at_power(nodes, now)
        timeout_s = self._power.resume_timeout_s if self._power else None
        self._meanings = {node.name: node_states.meaning(node.state, node.why, timeout_s) for node in nodes}
        self.nodes, self._nodes_at = nodes, now
        return True

    def _look_at_power(self, nodes: Sequence[SlurmNode], now: float) -> None:
        """Reads the administrator's settings, which seldom change."""
        if now - self._power_at < POWER_S or not nodes:
            return
        with contextlib.suppress(EngineError):  # Some versions don't show them.
            self._power_at = now
            settings = self._slurm.power(self._spec.partition or nodes[0].partition.rstrip("*"))
            listed = self._slurm.names(re.sub(r":\d+", "", settings.always_on)) if settings.always_on else []
            self._kept = power_saving.count_kept(settings, listed, [node.name for node in nodes])
            self._power = settings

    def follow(self, jobs: Mapping[str, Sequence[SlurmJob]], now: float) -> None:
        """Records which jobs wait for machines to start, and which are about to be preempted. jobs: by name."""
        self._note_starts({job.id: job.word for each in jobs.values() for job in each}, now)
        runs = any(job.word == "RUNNING" for each in jobs.values() for job in each)
        self._preempted = self._look_for_preemption() if runs and self._power and self._power.can_preempt else {}

    def _note_starts(self, words_by_id: Mapping[str, str], now: float) -> None:
        for number, since in list(self._starting.items()):
            word = words_by_id.get(number)
            if word == "RUNNING":
                self._start_times.add(now - since)
            if word != "CONFIGURING":
                self._starting.pop(number)
        for number, word in words_by_id.items():
            if word == "CONFIGURING":
                self._starting.setdefault(number, now)

    def _look_for_preemption(self) -> dict[str, str]:
        with contextlib.suppress(EngineError):  # A Slurm without this field gives no early notice.
            return self._slurm.preempted()
        return {}

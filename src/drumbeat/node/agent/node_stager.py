"""Stages a round's files on this node, sets it up and checks it, in threads beside the agent's own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from drumbeat.model.agent import Enrolment, NodeMessage
from drumbeat.model.errors import DrumbeatError, UnreachableError
from drumbeat.node.agent.attempt_mounts import AttemptMounts
from drumbeat.node.agent.inbox import Inbox
from drumbeat.node.agent.next_step import AttemptFacts, WorkState
from drumbeat.node.agent.roster_member import member
from drumbeat.node.agent.round_process_specs import RoundProcesses
from drumbeat.node.inputs.missing_share import MissingShareError
from drumbeat.node.platform.agent_log import Journal
from drumbeat.node.platform.server_link import ServerLink
from drumbeat.node.platform.unusable_node import UnusableNodeError
from drumbeat.node.supervisor.node_tasks import NodeTasks

if TYPE_CHECKING:
    from drumbeat.node.inputs.store_inputs import NodeInputs
    from drumbeat.node.preflight.preflight import Preflight


class NodeStager:
    """Stages each round of one attempt and records its progress in `facts`. Used by the agent's own thread.

    check_checkpoints: is called with the round when its files are staged and no rank runs, in any thread.
    """

    def __init__(  # noqa: PLR0913 (parts of one agent)
        self,
        enrolment: Enrolment,
        journal: Journal,
        inbox: Inbox,
        processes: RoundProcesses,
        mounts: AttemptMounts,
        check_checkpoints: Callable[[int], None],
    ) -> None:
        self._enrolment, self._plan, self._journal = enrolment, enrolment.plan, journal
        self._inbox, self._processes, self._mounts = inbox, processes, mounts
        self._check_checkpoints = check_checkpoints
        self._inputs: NodeInputs | None = None
        self._preflight: Preflight | None = None
        self.member = member(enrolment)
        """This node's entry in the roster, completed by staging."""

    def begin(self, facts: AttemptFacts, node_tasks: NodeTasks, progress: Callable[[str], None]) -> None:
        """Begins to stage the current round. progress: receives messages, from any thread."""
        from drumbeat.node.agent.node_setup import NodeSetup, Reports
        from drumbeat.node.inputs.input_stager import InputStager
        from drumbeat.node.logs.node_log import NodeLog

        facts.staging = WorkState.GOING
        log = NodeLog(self._enrolment, facts.round.number, self._journal)
        inputs = self._inputs = self._serve_inputs()
        self._processes.data_server = inputs and inputs.data_server
        building = self._inbox.posting(partial(setattr, facts, "is_building"))
        reports = Reports(progress, lambda: building(True), lambda: building(False))  # noqa: FBT003 (the level itself)
        setup = NodeSetup(self._enrolment, self._processes, node_tasks, log, reports)

        def stage(say: Callable[[str], None]) -> None:
            remote = inputs if any(each.is_remote for each in self._plan.inputs) else None
            InputStager(self._enrolment, ServerLink(self._enrolment), say, remote).stage(facts.round.number)
            self._mounts.take_links(ServerLink(self._enrolment).output_link)
            self._mounts.appear()
            self._bring_checkpoints(say)
            self._check_checkpoints(facts.round.number)

        work = partial(setup.run, self.member, stage)
        if self._plan.preflight and self._plan.nodes > 1 and facts.round.number <= 1 and not self._enrolment.preflight:
            self._preflight = self._preflight or self._new_preflight(facts)
            work = partial(self._preflight.around, work)
        self._inbox.beside("staging", work, partial(self._on_staged, facts))

    def begin_again(self, facts: AttemptFacts) -> None:
        """Prepares a round on a node that was staged for an earlier one."""
        facts.staging = WorkState.GOING
        work = partial(self._check_checkpoints, facts.round.number)
        self._inbox.beside("checkpoints", work, partial(self._on_staged, facts))

    def close(self) -> None:
        """Ends what is only needed while nodes stage: the round's processes start."""
        if self._inputs is not None:
            self._inputs.close()
        if self._preflight is not None:
            self._preflight.close()

    def _bring_checkpoints(self, say: Callable[[str], None]) -> None:
        """Has a job that continues another one begin with its checkpoints. Raises DrumbeatError."""
        if self._plan.resumption is None:
            return
        from drumbeat.node.inputs.earlier_checkpoints import bring

        if copied := bring(self._enrolment, say):
            node = self._enrolment.node
            self._mounts.remember(NodeMessage(f"checkpoints of an earlier job on node {node}", copied))

    def _new_preflight(self, facts: AttemptFacts) -> Preflight:
        from drumbeat.node.preflight.preflight import Preflight

        report = self._inbox.posting(partial(setattr, facts, "preflight"))
        return Preflight(self._enrolment, self.member.address, self._inbox.posting(self._on_probe_port), report)

    def _serve_inputs(self) -> NodeInputs | None:
        """Begins to serve inputs from stores, and an environment, to other nodes; returns None if the job has none."""
        has_environment = self._plan.python is not None and self._plan.nodes > 1
        if not has_environment and not any(each.is_remote for each in self._plan.inputs):
            return None
        from drumbeat.node.inputs.store_inputs import NodeInputs

        inputs = self._inputs or NodeInputs(self._enrolment, self._mounts.ways())
        self.member = inputs.serve(self.member)
        return inputs

    def _on_staged(self, facts: AttemptFacts, error: DrumbeatError | None) -> None:
        self.member = self._processes.member(self.member)
        facts.staging = WorkState.FAILED if error else WorkState.DONE
        facts.error, facts.detail = "" if facts.round.closed else str(error or ""), ""
        facts.is_transient = isinstance(error, UnreachableError)
        facts.is_share_missing = isinstance(error, MissingShareError)
        facts.is_unusable = isinstance(error, UnusableNodeError)

    def _on_probe_port(self, port: int) -> None:
        self.member = replace(self.member, probe_port=port)

"""The supervisor of an attempt on this node: taken from, and returned to, the spare supervisors; and the processes that
outlive it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from drumbeat.launchers import warm_start_fit
from drumbeat.model.agent import Enrolment
from drumbeat.model.plan import NodeOptions
from drumbeat.model.supervisor import SupervisorState
from drumbeat.node.agent.attempt_mounts import AttemptMounts
from drumbeat.node.platform.agent_log import Journal
from drumbeat.node.supervisor.client import SupervisorClient
from drumbeat.node.supervisor.machine import MACHINE


class NodeSupervisor(SupervisorClient):
    """Runs the supervisor of one attempt; takes over a spare supervisor, and leaves one behind, where the attempt
    allows it.
    """

    machine = MACHINE

    def __init__(
        self,
        enrolment: Enrolment,
        journal: Journal,
        confinement: str,
        on_state: Callable[[SupervisorState], None],
        on_failure: Callable[[str], None],
    ) -> None:
        super().__init__(f"{enrolment.root}/keeper", journal, on_state, on_failure, confinement=confinement)
        self._enrolment = enrolment
        self.claim = self._claim_spare if self._has_spares else None

    @property
    def _has_spares(self) -> bool:
        if not self._enrolment.keeps_spares or warm_start_fit.why_cold(self._enrolment.plan):
            return False
        from drumbeat.node.supervisor import spare_folders

        return spare_folders.are_kept(self._enrolment, self.machine)

    def _claim_spare(self, folder: str) -> bool:
        from drumbeat.node.supervisor import spare_folders

        with contextlib.suppress(OSError):  # Without a cache, or with a full disk, the ranks start cold.
            return spare_folders.claim(spare_folders.key(self._enrolment, self._confinement), folder, self.machine)
        return False

    def retire_if_prepared(self) -> None:
        """Makes the supervisor a spare for the next job if it has warm workers, ready or not."""
        if (self.state.warm_workers or self.state.preparing) and self._has_spares:
            from drumbeat.node.supervisor import spare_folders

            with contextlib.suppress(OSError):
                key = spare_folders.key(self._enrolment, self._confinement)
                self.retire(spare_folders.new_folder(key, self.machine), spare_folders.idle_s(self.machine))


def outliving(plan: NodeOptions, mounts: AttemptMounts) -> set[int]:
    """Returns the processes of an attempt that outlive its supervisors: those that serve mounts."""
    if not plan.shares:
        return mounts.pids()
    from drumbeat.node.inputs.shares import daemons

    return mounts.pids() | daemons(plan.shares)

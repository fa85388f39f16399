"""The keys of the `drumbeat:` table about waiting and recovery, with their defaults: retries, grace, sizes.

Where each acts: `max_retries` in core/lifecycle/recovery.py; `retry_delay_s` and `max_retry_delay_s` in
core/lifecycle/backoff.py; `clean_rounds` in node/inputs/clean_round.py; `grace_s` in node/supervisor/rank_round.py;
`lost_after_s` in server/nodes/heartbeats.py; `hang_after_s` and `on_hang` in server/nodes/hang_watch.py and
core/lifecycle/hang_response.py; `rendezvous_timeout_s` in server/nodes/rendezvous_look.py; `min_nodes` and `max_nodes`
in core/scheduling/elastic_sizes.py; `grow` in core/lifecycle/elastic_growth.py. The limits of a job as a whole
(`limits: timeout`) are in `resources_and_limits.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from drumbeat.jobfile.reading.field_types import Count, Tally, Wait
from drumbeat.jobfile.reading.model import AnyCase, Contradiction, Model


class RecoverySettings(Model):
    """Retries, grace, and the times after which a node or a job counts as lost."""

    max_retries: Tally = Field(
        default=3,
        description="Maximum number of restarts after failures of the job; preemption and lost nodes don't count. "
        "Where this key is not set, a failure of the program itself is not retried before its first checkpoint.",
    )
    retry_delay_s: Wait = Field(
        default=10.0,
        description="Seconds to wait before the ranks start again when the same kind of failure recurs; the wait "
        "doubles with each recurrence. The first restart is immediate. 0 means never wait. Not set, it is "
        "`max_retry_delay_s` at most.",
    )
    max_retry_delay_s: Wait = Field(
        default=300.0, description="Maximum of that wait in seconds. Not set, it is `retry_delay_s` at least."
    )
    clean_rounds: bool = Field(
        default=False,
        description="Start each further round on the same nodes with the code folder and the outputs as the first "
        "one had them: what the failed round wrote there is removed, and `prepare` runs again. Checkpoints and "
        "artifacts logged through MLflow stay. Such a job has no warm start.",
    )
    grace_s: Wait = Field(default=30.0, description="Seconds between SIGTERM and SIGKILL.")
    lost_after_s: Wait = Field(default=600.0, description="Seconds to wait for a node whose state is unknown.")
    hang_after_s: Wait = Field(
        default=600.0,
        description="Seconds in which ranks write nothing or use no CPU before drumbeat looks for a hang; 0 means "
        "never.",
    )
    on_hang: Annotated[Literal["tell", "dump", "restart"], AnyCase()] = Field(
        default="tell",
        description="Action after a hang: `tell` names the rank that is the cause in the story, and keeps the stacks "
        "of all ranks; `dump` adds native frames to these, for which each rank stands still for a moment; `restart` "
        "starts the ranks again, which counts as a retry.",
    )
    rendezvous_timeout_s: Wait = Field(
        default=300.0,
        description="Seconds without a sign of work after which ranks that have not reached the rendezvous "
        "(`init_process_group`), where others wait for them, are given up: all ranks start again, which counts as a "
        "retry. Where this key is not set, and the absent ranks wait for something from outside of the job, the story "
        "names them and the round continues. 0 means never.",
    )
    min_nodes: Count | None = Field(
        default=None,
        description="Minimum number of nodes to start or continue with; `instance_count` when not set.",
    )
    max_nodes: Count | None = Field(
        default=None,
        description="Maximum number of nodes that the job grows to; `resources.max_instance_count`, else "
        "`instance_count`, when not set.",
    )
    grow: Annotated[Literal["at_checkpoint", "at_once"], AnyCase()] = Field(
        default="at_checkpoint",
        description="When a job with fewer nodes than `max_nodes` takes nodes that become free: after the next "
        "checkpoint of `drumbeat.train.Checkpoints`, or at once.",
    )

    @property
    def retry_delays_s(self) -> tuple[float, float]:
        """The first wait before another try, and the longest; a default gives way to a key that is set."""
        if "max_retry_delay_s" in self.model_fields_set:
            return min(self.retry_delay_s, self.max_retry_delay_s), self.max_retry_delay_s
        return self.retry_delay_s, max(self.retry_delay_s, self.max_retry_delay_s)

    def contradictions(self) -> Iterator[Contradiction]:
        are_both_set = {"retry_delay_s", "max_retry_delay_s"} <= self.model_fields_set
        if are_both_set and self.retry_delay_s > self.max_retry_delay_s:
            yield Contradiction(
                ("retry_delay_s",),
                f"{self.retry_delay_s:g} s, but `max_retry_delay_s` allows {self.max_retry_delay_s:g} s",
            )
        if self.min_nodes and self.max_nodes and self.min_nodes > self.max_nodes:
            yield Contradiction(
                ("min_nodes",), f"at least {self.min_nodes} nodes, but `max_nodes` allows {self.max_nodes}"
            )

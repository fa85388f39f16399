"""What the ranks of a job do, as the agents of its nodes answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Any

from drumbeat.core.diagnosis.hangs import stack_report
from drumbeat.core.diagnosis.hangs.activity import Activity
from drumbeat.core.diagnosis.hangs.straggler_phases import RankPhases, from_samples
from drumbeat.core.lifecycle.job import Job
from drumbeat.model.api.stacks import NodeStacks
from drumbeat.model.stacks import NATIVE_FIELD, PAUSE_FIELD, RANKS_FIELD, ROUND_FIELD, SAMPLE_FIELD, NodeFacts
from drumbeat.model.wire import from_wire

Answer = dict[str, Any]


@dataclass(frozen=True)
class JobFacts:
    """What the nodes of a job answered. answers: by node, its facts or why there are none."""

    answers: Mapping[int, NodeFacts | str]

    @property
    def activities(self) -> list[Activity]:
        """What each rank does that is known of."""
        return [
            one
            for node, facts in self.answers.items()
            if isinstance(facts, NodeFacts)
            for one in stack_report.activities(node, facts)
        ]

    @property
    def phases(self) -> list[RankPhases]:
        """How each rank that was sampled often enough has spent the time."""
        return [
            one
            for node, facts in self.answers.items()
            if isinstance(facts, NodeFacts)
            for rank in facts.ranks
            if (one := from_samples(node, rank)) is not None
        ]

    def stacks(self, hosts: Sequence[str]) -> list[NodeStacks]:
        """The stacks, node by node."""
        return [
            stack_report.node_stacks(node, hosts[node], facts)
            if isinstance(facts, NodeFacts)
            else NodeStacks(node, hosts[node], error=facts)
            for node, facts in self.answers.items()
        ]

    def with_native(self, native: JobFacts) -> JobFacts:
        """The facts with the frames of a later look that has native ones."""
        threads = {
            (node, process.pid): process.threads
            for node, facts in native.answers.items()
            if isinstance(facts, NodeFacts)
            for rank in facts.ranks
            for process in rank.processes
        }

        def merged(node: int, facts: NodeFacts | str) -> NodeFacts | str:
            if isinstance(facts, str):
                return facts
            ranks = (
                replace(
                    rank,
                    processes=tuple(
                        replace(one, threads=threads.get((node, one.pid)) or one.threads) for one in rank.processes
                    ),
                )
                for rank in facts.ranks
            )
            return replace(facts, ranks=tuple(ranks))

        return JobFacts({node: merged(node, facts) for node, facts in self.answers.items()})


def request_fields(
    job: Job, pause_s: float, *, is_native: bool = False, ranks: Sequence[int] = (), sample_s: float = 0.0
) -> dict[str, str]:
    """The fields of a request for stacks. sample_s: 0 = looks, else samples for so long."""
    native = {NATIVE_FIELD: "1"} if is_native else {}
    chosen = {RANKS_FIELD: ",".join(map(str, ranks))} if ranks else {}
    samples = {SAMPLE_FIELD: f"{sample_s:g}"} if sample_s else {}
    return {ROUND_FIELD: str(job.round), PAUSE_FIELD: f"{pause_s:g}", **native, **chosen, **samples}


def facts_of(answer: Answer | BaseException) -> NodeFacts | str:
    """What a node answered, or why it did not."""
    if isinstance(answer, BaseException):
        return str(answer) or "the node gave no answer in time"
    try:
        return from_wire(NodeFacts, answer, "stacks")
    except ValueError as error:
        return f"its agent answered something else: {error}"


def result_of(answer: Future[Answer]) -> NodeFacts | str:
    """What a node has answered by now."""
    try:
        return facts_of(answer.result(0))
    except Exception as error:  # noqa: BLE001 (whatever the agent answered with)
        return facts_of(error)


def hosts_of(job: Job) -> list[str]:
    """The machine of each node, "" = its agent hasn't come yet."""
    statuses = [*job.nodes, *[None] * job.plan.nodes][: job.plan.nodes]
    return [one.member.host if one else "" for one in statuses]

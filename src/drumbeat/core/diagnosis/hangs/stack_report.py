"""Formats the stacks of ranks as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from drumbeat.core.diagnosis.hangs.activity import Activity, describe_activity, for_rank
from drumbeat.model.api.stacks import NodeStacks, RankStacks
from drumbeat.model.stacks import NodeFacts, ProcessFacts, StackFrame, ThreadStack

_STATES = {"R": "runs", "S": "sleeps", "D": "waits for a device", "T": "is stopped", "t": "is traced", "Z": "has ended"}


def activities(node: int, facts: NodeFacts) -> list[Activity]:
    """Returns what each rank of a node does."""
    return [for_rank(node, one, facts.seconds) for one in facts.ranks]


def node_stacks(node: int, host: str, facts: NodeFacts) -> NodeStacks:
    """Returns the stacks of a node's ranks, each with what it does."""
    doing = activities(node, facts)
    ranks = (
        RankStacks(one.rank, describe_activity(act), one.processes) for one, act in zip(facts.ranks, doing, strict=True)
    )
    return NodeStacks(node, host, tuple(ranks))


def text(nodes: Sequence[NodeStacks]) -> str:
    """Returns the stacks of all ranks, rank by rank."""
    return "\n".join(line for node in nodes for line in _node(node)) + "\n"


def _node(node: NodeStacks) -> Iterator[str]:
    where = f"node {node.node} ({node.host})" if node.host else f"node {node.node}"
    if node.error:
        yield f"{where}: {node.error}"
    for one in node.ranks:
        yield f"rank {one.rank} on {where} {one.doing}"
        for process in one.processes:
            yield from _process(process)
        yield ""


def _process(process: ProcessFacts) -> Iterator[str]:
    state = _STATES.get(process.state, process.state)
    kernel = f" in {process.kernel}" if process.kernel else ""
    yield f"  process {process.pid} {state}{kernel}: {process.command}"
    if process.problem:
        yield f"    no stack: {process.problem}"
    for thread in process.threads:
        yield from _thread(thread)


def _thread(thread: ThreadStack) -> Iterator[str]:
    kernel = f", in {thread.kernel}" if thread.kernel else ""
    yield f"    thread {thread.id}{f' {thread.name}' if thread.name else ''}{kernel}"
    for frame in thread.frames:
        yield f"      {_frame(frame)}"


def _frame(frame: StackFrame) -> str:
    where = f"{frame.file}:{frame.line}" if frame.line else frame.file
    return f"{frame.function} ({where})" if where else frame.function

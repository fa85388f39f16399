"""Every fault of the project's list, in its order: first on one machine, then on nodes with addresses of their own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tools.faults import node_parts, outside, ranks, servers, stores, whole_nodes
from tools.faults.scene import Scene, Seen


@dataclass(frozen=True)
class Row:
    """One fault: how it is played to drumbeat, and to torchrun where that has words for it."""

    name: str
    ours: Callable[[Scene], Seen]
    theirs: Callable[[Scene], Seen] | None = None
    runs: int = 1


_SAVING = Row(f"SIGTERM when a rank needs {ranks.SAVE_S} s to save", ranks.save_long, ranks.save_long_torchrun)
NETWORKED = (
    Row("a node of two is switched off", whole_nodes.switch_off, whole_nodes.switch_off_torchrun),
    Row("the link of a node goes down", whole_nodes.cut_link, whole_nodes.cut_link_torchrun),
    Row(
        f"the link of a node is down for {whole_nodes.CUT_S:.0f} s",
        whole_nodes.mend_link,
        whole_nodes.mend_link_torchrun,
    ),
    Row(
        "a node of three is switched off, `min_nodes: 2`",
        whole_nodes.go_on_with_fewer,
        whole_nodes.go_on_with_fewer_torchrun,
    ),
    Row("`kill -9` of the agent of node 1", node_parts.kill_agent, node_parts.kill_agent_torchrun),
    Row("the disk of node 1 is full", node_parts.fill_disk),
    Row("the clock of node 1 jumps an hour forward", node_parts.jump_clock, node_parts.jump_clock_torchrun),
    Row("the link of node 1 is slow, of three", node_parts.slow_link, node_parts.slow_link_torchrun),
    Row("the rank of node 1 is slow, of two", node_parts.slow_rank, node_parts.slow_rank_torchrun),
)
"""On a netlab, which needs root: drumbeat's job has a node for each rank, and torchrun runs on the same nodes."""
ROWS = (
    Row("a rank leaves early with exit code 0", ranks.leave_early, ranks.leave_early_torchrun, 3),
    Row("a rank raises", ranks.raise_error, ranks.raise_error_torchrun, 3),
    Row("`kill -9` of a rank", ranks.kill_rank, ranks.kill_rank_torchrun, 3),
    Row("`kill -9` of the agent", ranks.kill_agent, ranks.kill_agent_torchrun),
    Row("`kill -9` of the supervisor", ranks.kill_supervisor, None, 3),
    Row("SIGSTOP of a rank", ranks.stop_rank, ranks.stop_rank_torchrun),
    Row("a rank waits for a lock that it holds", ranks.lock_rank, ranks.lock_rank_torchrun),
    _SAVING,
    Row("two jobs on one machine", ranks.run_two, ranks.run_two_torchrun),
    Row("ranks that ignore SIGTERM and fork daemons", outside.fork_daemons, outside.fork_daemons_torchrun),
    Row("`kill -9` of the server, job queued", servers.while_queued),
    Row("`kill -9` of the server, job staging", servers.while_staging),
    Row("`kill -9` of the server, job running", servers.while_running),
    Row("`kill -9` of the server, job stopping", servers.while_stopping),
    Row("`kill -9` of the server, sweep running", servers.while_sweep_runs),
    Row("the disk is full", servers.fill_disk),
    Row("the store refuses, is slow, breaks off, changes a file", stores.store),
    Row("the database crashes three times", stores.database),
    Row("the clock jumps an hour forward", servers.jump_forward),
    Row("the clock jumps an hour back", servers.jump_back),
    Row("an agent wakes after its attempt was replaced", servers.wake_old_agent),
    Row("floods of output, binary, one endless line", outside.flood),
    Row("a client vanishes in its submit; the same submit again", outside.send_twice),
    Row("bad input", outside.bad_input),
    *NETWORKED,
)
BESIDE = (_SAVING, *NETWORKED)
"""Rows that mostly wait: played beside the others."""

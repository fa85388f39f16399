"""The pids of a node's ranks, found in /proc by the initial environment of the supervisor's descendants.

`launchers/rank_process.py` and `node/agent/round_process_specs.py` set that environment.
"""

from __future__ import annotations

from collections.abc import Iterator

from drumbeat.launchers.tracking_variables import ENDPOINT
from drumbeat.node.host import processes


def rank_pids(supervisor: int) -> Iterator[tuple[int, int]]:
    """Yields each process of a rank with the rank: by its variable, else by its parent's."""
    for pid, _, rank in _members(supervisor):
        yield pid, rank


def first_pids(supervisor: int) -> dict[int, int]:
    """Returns, by rank, the process that the supervisor, or its launcher, started for it."""
    members = list(_members(supervisor))
    ranks = {pid: rank for pid, _, rank in members}
    firsts = [(rank, pid) for pid, parent, rank in members if ranks.get(parent) != rank]
    return dict(reversed(firsts))  # The first of several wins.


def _members(supervisor: int) -> Iterator[tuple[int, int, int]]:
    """Yields pid, parent and rank."""
    ranks: dict[int, int] = {}
    for pid, parent, _, variables in processes.family(supervisor, ENDPOINT):
        number = variables.get(ENDPOINT, "").rpartition("/")[2]
        rank = int(number) if number.isdecimal() else ranks.get(parent)
        if rank is not None and not processes.is_spare(pid):
            ranks[pid] = rank
            yield pid, parent, rank

"""Answers the server's request for the stacks of a node's ranks."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from drumbeat.model import wire
from drumbeat.model.agent import Enrolment
from drumbeat.model.logs import LogName
from drumbeat.model.stacks import NATIVE_FIELD, PAUSE_FIELD, RANKS_FIELD, ROUND_FIELD, SAMPLE_FIELD, NodeFacts
from drumbeat.node.host import processes
from drumbeat.node.platform.rank_pids import rank_pids
from drumbeat.node.stacks import find_py_spy
from drumbeat.node.stacks.rank_looks import RankLooks

MAX_PAUSE_S = 30.0
_SEARCH = find_py_spy.Search()
_ONE_LOOK = threading.Lock()
"""Held during an observation, so that only one runs at a time, however many are requested."""


def answer(
    enrolment: Enrolment, supervisor: int, fields: dict[str, str], idle_s: Callable[[], Mapping[int, float]]
) -> dict[str, Any]:
    """Returns the facts of the ranks under this supervisor, 0 = none runs. idle_s: of each rank, as in `RankFacts`."""
    if not supervisor:
        return wire.to_wire(NodeFacts())
    with _ONE_LOOK:
        facts = _look(enrolment, supervisor, fields)
    seconds = idle_s()
    ranks = tuple(replace(one, idle_s=round(seconds.get(one.rank, 0.0), 1)) for one in facts.ranks)
    return wire.to_wire(replace(facts, ranks=ranks))


def _look(enrolment: Enrolment, supervisor: int, fields: dict[str, str]) -> NodeFacts:
    wanted = [int(one) for one in fields.get(RANKS_FIELD, "").split(",") if one.isdecimal()]
    program, problem = _SEARCH.find(enrolment, _interpreters(supervisor))
    looks = RankLooks(supervisor, _logs(enrolment, fields), program, problem)
    if sample_s := float(fields.get(SAMPLE_FIELD, "0")):
        return looks.sample(min(sample_s, MAX_PAUSE_S))
    pause_s = min(float(fields.get(PAUSE_FIELD, "0")), MAX_PAUSE_S)
    return looks.look(pause_s, ranks=wanted, is_native=fields.get(NATIVE_FIELD) == "1")


def _logs(enrolment: Enrolment, fields: dict[str, str]) -> dict[int, str]:
    number, node = int(fields.get(ROUND_FIELD, "0")), enrolment.node
    names = {one.rank: LogName(enrolment.attempt, number, node, one.rank).path for one in enrolment.plan.on(node)}
    return {rank: f"{enrolment.root}/{name}" for rank, name in names.items()}


def _interpreters(supervisor: int) -> Iterable[str]:
    """Yields the programs of the ranks' Pythons, as the ranks were started."""
    for pid, _ in rank_pids(supervisor):
        if processes.is_python(pid):
            words, folder = processes.begun_with(pid, "VIRTUAL_ENV")
            yield f"{folder}/bin/python" if folder else (words or [""])[0]
            if program := processes.program_path(pid):
                yield os.path.realpath(program)

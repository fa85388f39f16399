"""A rendezvous whose absent rank may yet come, by real ranks and their stacks: the round continues, and it is told.

The default of 300 s would be waited for in a job, and a job that sets the time has its ranks ended. So the look of the
server is taken here, at ranks as those of the labelled set, with the limit as it is in a plan.
"""

from __future__ import annotations

import os
import time
from dataclasses import replace

import pytest

from drumbeat.core.diagnosis.hangs.rendezvous import RendezvousState, RendezvousVerdict
from drumbeat.node.stacks import find_py_spy
from drumbeat.node.stacks.rank_looks import RankLooks
from drumbeat.node.stacks.silence import SilenceLimits, SilenceWatch
from drumbeat.server.nodes.closer_look import Ask, CloserLook
from drumbeat.server.nodes.rendezvous_look import RendezvousLook
from drumbeat.server.nodes.stacks import JobFacts
from tests.unit.core.jobs import running
from tools.hangs.case import PLAIN, READY, busy
from tools.hangs.scene import Ranks, started

from .house import until

pytestmark = [
    pytest.mark.feature("F4"),
    pytest.mark.thorough,
    pytest.mark.skipif(not find_py_spy.find_here(), reason="py-spy isn't installed: pip install py-spy"),
]

TIMEOUT_S = 2.0
LATE = busy(
    "a rank is late",
    f"import torch.distributed as dist\n{READY}if rank == 1:\n    time.sleep(1000)\ndist.init_process_group('gloo')\n",
    begins=PLAIN,
)


class Looks:
    """The looks of a server at the rendezvous of these ranks."""

    def __init__(self, ranks: Ranks, watch: SilenceWatch) -> None:
        logs = {rank: str(log) for rank, log in ranks.logs.items()}
        self._watch, self._looks = watch, RankLooks(os.getpid(), logs, find_py_spy.find_here())
        job = running(1, 2)
        job = replace(job, plan=replace(job.plan, rendezvous_timeout_s=TIMEOUT_S))
        assert not job.plan.is_rendezvous_strict
        closer = CloserLook((0, 1), TIMEOUT_S, self._ask, ranks.left, lambda seconds: bool(time.sleep(seconds)))
        self._look = RendezvousLook(job, closer)

    def verdict(self) -> RendezvousVerdict:
        return self._look.look()[0]

    def _ask(self, what: Ask) -> JobFacts:
        facts = self._looks.look(what.pause_s, ranks=what.ranks, is_native=what.is_native)
        idle_s = self._watch.idle_s()
        ranks = tuple(replace(one, idle_s=idle_s.get(one.rank, 0.0)) for one in facts.ranks)
        return JobFacts({0: replace(facts, ranks=ranks)})


def test_absent_rank_that_sleeps_is_late_and_no_reason_to_end_the_round() -> None:
    watch = SilenceWatch(SilenceLimits(idle_s=TIMEOUT_S), lambda _, __: None)
    with started(LATE) as ranks:
        ranks.wait_until_silent()
        watch.begin(1, os.getpid(), {rank: str(log) for rank, log in ranks.logs.items()})
        looks, seen = Looks(ranks, watch), list[RendezvousVerdict]()
        try:
            until(lambda: seen.append(looks.verdict()) or seen[-1].state is not RendezvousState.OPEN, what="a verdict")
        finally:
            watch.end()
    late = seen[-1]
    assert (late.state, late.rank) == (RendezvousState.LATE, 1)
    assert late.sentence.startswith("the rendezvous is incomplete after 2 s: rank 1 on node 0 ")
    assert (
        "has not arrived: it sleeps at train.py:6, while rank 0 waits at the rendezvous at train.py:7" in late.sentence
    )
    assert late.sentence.endswith("with `rendezvous_timeout_s` in the job file, the ranks would start again")

"""A closer look at silent ranks: when native frames are read, and when a hang counts as one."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest

from drumbeat.core.diagnosis.hangs.hang_verdict import Stillness
from drumbeat.model.stacks import NodeFacts, ProcessFacts, RankFacts, StackFrame, ThreadStack
from drumbeat.server.nodes.closer_look import Ask, CloserLook
from drumbeat.server.nodes.silence_look import SilenceLook, SilenceMemory
from drumbeat.server.nodes.stacks import JobFacts

pytestmark = pytest.mark.feature("F4")

MODULE = StackFrame("<module>", "/job/train.py", 40)
ALL_REDUCE = (StackFrame("all_reduce", "/env/site-packages/torch/distributed/distributed_c10d.py", 9), MODULE)
MPI = (StackFrame("opal_progress", "libopen-pal.so"), StackFrame("PMPI_Allreduce", "libmpi.so"), MODULE)
SYNCHRONIZE = (StackFrame("cuStreamSynchronize", "libcuda.so.1"), MODULE)
SLEEP = StackFrame("<module>", "/job/train.py", 44)
SORT = (StackFrame("list_sort_impl", "python3.11"), MODULE)


def process(frames: tuple[StackFrame, ...], place: str = "p", cpu_s: float = 0.0, state: str = "S") -> ProcessFacts:
    threads = (ThreadStack(7, "MainThread", frames),)
    return ProcessFacts(7, state=state, cpu_s=cpu_s, main_cpu_s=cpu_s, threads=threads, place=place, is_same_place=True)


@dataclass
class Ranks:
    """Answers of the nodes, in order; the last one again and again. Native ones apart."""

    answers: list[dict[int, ProcessFacts]]
    native: dict[int, ProcessFacts] = field(default_factory=dict[int, ProcessFacts])
    asked: list[Ask] = field(default_factory=list[Ask])

    def ask(self, what: Ask) -> JobFacts:
        self.asked.append(what)
        if what.is_native:
            processes = {rank: one for rank, one in self.native.items() if rank in what.ranks}
        else:
            processes = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        facts = (RankFacts(rank, (replace(one, pid=100 + rank),)) for rank, one in processes.items())
        return JobFacts({0: NodeFacts(5.0, tuple(facts))})

    def look(self, remembered: SilenceMemory | None = None) -> SilenceLook:
        return SilenceLook(CloserLook((0, 1), 600.0, self.ask, tuple, lambda _: False), remembered or SilenceMemory())


def test_hang_must_be_the_same_in_two_looks() -> None:
    waiting, stopped = process(ALL_REDUCE), process((MODULE,), state="T")
    ranks = Ranks([{0: waiting, 1: stopped}])
    assert ranks.look().look()[0].is_hang
    moved = Ranks([{0: waiting, 1: stopped}, {0: process(ALL_REDUCE, "q"), 1: stopped}])
    assert moved.look().look()[0].stillness is Stillness.UNKNOWN
    assert [one.pause_s for one in ranks.asked] == [5.0, 5.0]


def test_native_frames_are_read_only_if_pythons_are_inconclusive() -> None:
    polling = process((MODULE,), cpu_s=5.0)
    ranks = Ranks([{0: polling, 1: polling}], {0: process(MPI), 1: process(MPI)})
    look = ranks.look()
    assert look.look()[0].stillness is Stillness.UNKNOWN
    verdict, _ = look.look()
    assert verdict.is_hang
    assert "every rank waits in MPI_Allreduce at train.py:40" in verdict.sentence
    assert ranks.asked[1] == Ask(is_native=True, ranks=(0, 1))


def test_rank_that_moves_is_never_asked_for_native_frames() -> None:
    moving = ProcessFacts(7, state="R", cpu_s=5.0, threads=(ThreadStack(7, "", (MODULE,)),), place="p")
    ranks = Ranks([{0: process(ALL_REDUCE), 1: moving}])
    assert ranks.look().look()[0].stillness is Stillness.SLOW
    assert not any(one.is_native for one in ranks.asked)


def test_place_that_native_frames_showed_to_be_work_is_not_read_again() -> None:
    ranks = Ranks([{0: process(ALL_REDUCE), 1: process((MODULE,), cpu_s=5.0)}], {1: process(SORT)})
    look = ranks.look()
    assert look.look()[0].stillness is Stillness.SLOW
    assert look.look()[0].stillness is Stillness.BUSY
    assert [one.is_native for one in ranks.asked] == [False, True, False]


def test_hang_at_the_line_of_a_healthy_silence_is_reported_once_the_gpu_rests() -> None:
    polling = process((MODULE,), cpu_s=5.0)
    ranks = Ranks([{0: polling, 1: polling}], {0: process(SYNCHRONIZE), 1: process(SYNCHRONIZE)})
    look, at_rest = ranks.look(), ranks.answers[0]
    ranks.answers = [{rank: replace(one, gpu_memory_percent=13.0) for rank, one in at_rest.items()}]
    assert [look.look()[0].stillness for _ in range(3)] == [Stillness.BUSY] * 3
    assert [one.is_native for one in ranks.asked] == [False, True, False, False]
    ranks.answers = [at_rest]
    assert [look.look()[0].stillness for _ in range(3)] == [Stillness.UNKNOWN, Stillness.HUNG, Stillness.HUNG]


def test_rank_that_falls_asleep_beside_a_busy_gpu_is_reported_after_the_interval() -> None:
    busy = replace(process((MODULE,), cpu_s=5.0), gpu_memory_percent=1.0)
    ranks = Ranks([{0: busy, 1: busy}], {0: process(SYNCHRONIZE), 1: process(SYNCHRONIZE)})
    look = ranks.look()
    assert look.look()[0].stillness is Stillness.BUSY
    ranks.answers = [{0: busy, 1: replace(process((SLEEP,), "q"), kernel="hrtimer_nanosleep")}]
    assert look.look()[0].stillness is Stillness.UNKNOWN
    verdict, _ = look.look()
    assert verdict.sentence == "rank 1 on node 0 sleeps at train.py:44, while rank 0 waits for its GPU at train.py:40"
    assert (verdict.is_hang, verdict.is_certain) == (True, False)


def test_native_frames_prove_a_lock_beside_a_rank_whose_gpu_is_busy() -> None:
    synchronize = (StackFrame("synchronize", "/env/site-packages/torch/cuda/__init__.py", 9), MODULE)
    busy = replace(process(synchronize, cpu_s=5.0), gpu_memory_percent=1.0)
    locked = replace(process((SLEEP,)), kernel="futex_do_wait", gpu_memory_percent=1.0)
    lock = process((StackFrame("PyThread_acquire_lock_timed", "python3.11"), SLEEP))
    ranks = Ranks([{0: busy, 1: locked}], {1: lock})
    look = ranks.look()
    assert [look.look()[0].stillness for _ in range(2)] == [Stillness.UNKNOWN, Stillness.HUNG]
    assert ranks.asked[1] == Ask(is_native=True, ranks=(1,))


def test_ranks_in_one_collective_hang_only_if_still_there_after_the_interval() -> None:
    moving = Ranks([{0: process(ALL_REDUCE, place), 1: process(ALL_REDUCE, place)} for place in "pq"])
    look = moving.look()
    assert [look.look()[0].stillness for _ in range(2)] == [Stillness.UNKNOWN] * 2
    assert look.look()[0].is_hang


def test_look_compares_with_the_places_of_the_last_look() -> None:
    """As the watch looks: with a look of its own each time."""
    ranks, remembered = Ranks([{0: process(ALL_REDUCE), 1: process(ALL_REDUCE)}]), SilenceMemory()
    assert [ranks.look(remembered).look()[0].is_hang for _ in range(2)] == [False, True]


def test_verdict_is_unknown_without_the_answer_of_a_node() -> None:
    ranks = Ranks([{0: process(ALL_REDUCE)}])
    assert ranks.look().look()[0].stillness is Stillness.UNKNOWN


def test_ranks_that_worked_between_two_looks_arent_where_they_were() -> None:
    waiting = process(ALL_REDUCE)
    moving = ProcessFacts(7, state="R", cpu_s=5.0, threads=(ThreadStack(7, "", (MODULE,)),), place="m")
    together, working = {0: waiting, 1: waiting}, {0: waiting, 1: moving}
    ranks = Ranks([together, working, together])
    look = ranks.look()
    stillness = [look.look()[0].stillness for _ in range(4)]
    assert stillness == [Stillness.UNKNOWN, Stillness.SLOW, Stillness.UNKNOWN, Stillness.HUNG]

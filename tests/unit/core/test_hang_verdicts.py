"""What the silence of ranks is: facts of processes between two looks, and the sentence that names the odd one."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from drumbeat.core.diagnosis.hangs import stack_report
from drumbeat.core.diagnosis.hangs.activity import Activity, for_rank
from drumbeat.core.diagnosis.hangs.hang_verdict import HangVerdict, Stillness, judge
from drumbeat.model.stacks import NodeFacts, ProcessFacts, RankFacts, StackFrame, ThreadStack
from drumbeat.model.wire import from_wire
from tests.support.messages import Messages

pytestmark = pytest.mark.feature("F4")

SITE = "/env/lib/python3.11/site-packages"
MODULE = StackFrame("<module>", "/job/train.py", 40)
ALL_REDUCE = (StackFrame("all_reduce", f"{SITE}/torch/distributed/distributed_c10d.py", 3252), MODULE)
LOADER = (StackFrame("_try_get_data", f"{SITE}/torch/utils/data/dataloader.py", 1), MODULE)
OWN = (StackFrame("validate", "/job/eval.py", 7), MODULE)


def process(frames: tuple[StackFrame, ...] = (), kernel: str = "", **more: Any) -> ProcessFacts:
    """A process that stood still between the looks."""
    threads = (ThreadStack(7, "MainThread", frames, kernel),) if frames else ()
    facts = ProcessFacts(7, "python train.py", state="S", kernel=kernel, threads=threads)
    return replace(facts, **{"place": "p" if frames else "", "is_same_place": bool(frames), **more})


def rank(number: int, *processes: ProcessFacts, node: int = 0) -> Activity:
    return for_rank(node, RankFacts(number, processes), 5.0)


WAITING = process(ALL_REDUCE, "futex_do_wait")


def verdict(odd: ProcessFacts, *helpers: ProcessFacts) -> HangVerdict:
    """Of rank 1 on node 1, for which rank 0 waits in a collective."""
    return judge([rank(0, WAITING), rank(1, odd, *helpers, node=1)])


def hung(odd: ProcessFacts, *helpers: ProcessFacts) -> str:
    said = verdict(odd, *helpers)
    assert (said.stillness, said.rank, said.node) == (Stillness.HUNG, 1, 1)
    ending = ", while rank 0 waits in all_reduce at train.py:40"
    assert said.sentence.endswith(ending)
    return said.sentence.removesuffix(ending).removeprefix("rank 1 on node 1 ")


def test_stopped_rank_is_the_odd_one(messages: Messages) -> None:
    messages.check(hung(process(OWN, "do_signal_stop", state="T")))


def test_rank_in_a_lock_is_the_odd_one(messages: Messages) -> None:
    messages.check(hung(process(OWN, "futex_do_wait")))


def test_rank_at_a_dead_mount_is_the_odd_one(messages: Messages) -> None:
    sentence = hung(process(OWN, "rpc_wait_bit_killable", state="D"))
    messages.check(sentence)


def test_blocked_worker_of_a_data_loader_is_named(messages: Messages) -> None:
    worker = process(OWN, "futex_do_wait", pid=9, is_helper=True)
    sentence = hung(process(LOADER, "poll_schedule_timeout"), worker)
    messages.check(sentence)


def test_stopped_worker_is_named(messages: Messages) -> None:
    sentence = hung(process(LOADER), process(OWN, pid=9, is_helper=True, state="T"))
    messages.check(sentence)


@pytest.mark.parametrize(
    "working",
    [
        process(OWN, cpu_s=4.0, main_cpu_s=4.0),
        process(OWN, is_same_place=False),
        process(OWN, io_bytes=5 << 20),
        process(OWN, "wait_woken", switches=40),
    ],
)
def test_rank_that_works_is_slow_and_no_hang(working: ProcessFacts, messages: Messages) -> None:
    said = verdict(working)
    assert (said.stillness, said.rank) == (Stillness.SLOW, 1)
    messages.check(said.sentence)


def test_working_worker_makes_the_data_slow(messages: Messages) -> None:
    said = verdict(process(LOADER), process(OWN, pid=9, is_helper=True, cpu_s=4.0))
    messages.check(said.sentence)


def test_child_that_trains_speaks_for_the_rank() -> None:
    launcher = process((StackFrame("Popen._wait", "/usr/lib/python3.11/subprocess.py", 9), MODULE), "do_wait")
    compiler = process(OWN, "do_epoll_wait", pid=11)
    assert hung(launcher, process(OWN, "futex_do_wait", pid=9)).startswith("waits for a lock")
    assert hung(process(OWN, "futex_do_wait"), compiler).startswith("waits for a lock")


def test_rank_that_starts_one_child_after_another_works() -> None:
    waiting = process((StackFrame("Popen._wait", "/usr/lib/python3.11/subprocess.py", 9), MODULE), "do_wait")
    assert for_rank(0, RankFacts(1, (waiting,), ended=1), 5.0).works


def test_swapped_rank_is_slow_for_lack_of_memory() -> None:
    said = verdict(process(OWN, cpu_s=0.2, swap_faults=4000, swapped_mib=900.0))
    assert said.stillness is Stillness.SLOW
    assert "swap" in said.sentence


def test_rank_that_left_is_the_odd_one(messages: Messages) -> None:
    said = judge([rank(0, WAITING)], left=[1])
    assert (said.stillness, said.rank) == (Stillness.HUNG, 1)
    messages.check(said.sentence)


def test_ranks_in_different_collectives_hang(messages: Messages) -> None:
    barrier = (StackFrame("barrier", ALL_REDUCE[0].file, 9), MODULE)
    said = verdict(process(barrier, "futex_do_wait"))
    assert said.is_hang
    messages.check(said.sentence)


def test_ranks_in_one_collective_hang_without_an_odd_one() -> None:
    said = verdict(WAITING)
    assert (said.stillness, said.rank) == (Stillness.HUNG, None)
    assert "check the network" in said.sentence


def test_polling_in_a_collective_is_a_wait() -> None:
    said = verdict(process(ALL_REDUCE, cpu_s=5.0, main_cpu_s=5.0))
    assert said.is_hang


def test_ranks_that_move_within_collectives_are_busy() -> None:
    moving = replace(WAITING, is_same_place=False)
    assert judge([rank(0, moving), rank(1, moving)]).stillness is Stillness.BUSY


def test_verdict_is_unknown_while_a_rank_is() -> None:
    assert judge([rank(0, WAITING)], missing=[1]).stillness is Stillness.UNKNOWN


def test_job_of_one_rank_hangs_in_a_deadlock_only() -> None:
    asleep, locked = process(OWN, "hrtimer_nanosleep"), process(OWN, "futex_do_wait")
    listener = ThreadStack(8, "server", OWN, "do_epoll_wait")
    serving = replace(locked, threads=(*locked.threads, listener))
    assert [judge([rank(0, one)]).stillness for one in (asleep, locked, serving)] == [
        Stillness.WAITS, Stillness.HUNG, Stillness.WAITS,
    ]  # fmt: skip


GPU = (StackFrame("synchronize", f"{SITE}/torch/cuda/__init__.py", 9), MODULE)
SERVING = process(OWN, "do_epoll_wait")


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (process(GPU), process(GPU)),
        (WAITING, process(GPU)),
        (WAITING, SERVING),
        (WAITING, process(OWN, "hrtimer_nanosleep")),
        (WAITING, process(OWN, "futex_do_wait")),
        (WAITING, process(OWN, "rpc_wait_bit_killable", state="D")),
    ],
)  # fmt: skip
def test_hang_that_something_from_outside_may_end_is_not_certain(first: ProcessFacts, second: ProcessFacts) -> None:
    verdict = judge([rank(0, first), rank(1, second)])
    assert (verdict.is_hang, verdict.is_certain) == (True, False)


def test_hang_in_which_ranks_wait_for_each_other_or_one_is_stopped_is_certain() -> None:
    barrier = process((StackFrame("barrier", ALL_REDUCE[0].file, 9), MODULE), "futex_do_wait")
    worker = process(OWN, "futex_do_wait", pid=9, is_helper=True)
    others = [((process(OWN, state="T"),)), (barrier,), (process(LOADER), worker)]
    assert all(judge([rank(0, WAITING), rank(1, *each)]).is_certain for each in others)
    assert judge([rank(0, WAITING)], left=[1]).is_certain


def test_gpu_or_one_collective_of_all_ranks_needs_time() -> None:
    assert judge([rank(0, process(GPU)), rank(1, process(GPU))]).needs_time
    assert judge([rank(0, WAITING), rank(1, WAITING)]).needs_time
    assert not judge([rank(0, WAITING), rank(1, process(OWN, state="T"))]).needs_time


def test_rank_that_waits_for_its_gpu_while_the_others_are_in_a_collective_is_named(messages: Messages) -> None:
    behind = process((ALL_REDUCE[0], replace(MODULE, line=41)), "futex_do_wait")
    said = judge([rank(0, behind), rank(1, process(GPU)), rank(2, behind)])
    messages.check(said.sentence)
    assert (said.rank, said.is_certain, said.needs_time) == (1, False, True)


BARRIER = replace(ALL_REDUCE[0], function="barrier")
POLLS = {"cpu_s": 5.0, "main_cpu_s": 5.0}


@pytest.mark.parametrize(
    "other",
    [
        process((BARRIER, replace(MODULE, line=50)), **POLLS),
        process((BARRIER, replace(MODULE, line=30)), "futex_do_wait"),
        process((BARRIER, replace(MODULE, file="/job/end.py", line=50)), "futex_do_wait"),
    ],
    ids=["by NCCL", "line before", "other file"],
)
def test_rank_that_waits_for_its_gpu_is_not_blamed_if_the_others_may_be_the_cause(
    other: ProcessFacts, messages: Messages
) -> None:
    said = judge([rank(0, process(GPU, **POLLS)), rank(1, other), rank(2, other)])
    messages.check(said.sentence)
    assert (said.is_hang, said.rank, said.is_certain, said.needs_time) == (True, None, False, True)


def test_collective_of_ranks_with_gpus_may_be_a_long_step_and_is_not_certain() -> None:
    polling, by_clock = process((BARRIER, MODULE), **POLLS), process((BARRIER, MODULE), "hrtimer_nanosleep")
    in_gloo = process((BARRIER, MODULE), "futex_do_wait")
    with_gpu = [replace(one, has_device=True) for one in (polling, by_clock, in_gloo)]
    said = [judge([rank(0, one), rank(1, one)]) for one in (polling, by_clock, *with_gpu)]
    assert all(one.is_hang for one in said)
    assert [one.is_certain for one in said] == [True, True, False, False, True]


@pytest.mark.parametrize(
    ("blocked", "sentence"),
    [
        (process(OWN, "hrtimer_nanosleep"), "sleeps at eval.py:7"),
        (process(OWN, "unix_stream_read_generic"), "waits at a socket or pipe at eval.py:7"),
        (process(OWN, "futex_do_wait"), "waits for a lock or another thread at eval.py:7"),
    ],
)
def test_rank_that_is_blocked_may_hang_though_gpus_seem_busy(
    blocked: ProcessFacts, sentence: str, messages: Messages
) -> None:
    busy = process(GPU, gpu_memory_percent=1.0, **POLLS)
    said = judge([rank(0, busy), rank(1, blocked)])
    messages.check(said.sentence)
    assert (said.is_hang, said.rank, said.is_certain, said.needs_time) == (True, 1, False, True)


def test_rank_without_proof_of_a_block_is_not_reported_while_gpus_are_busy() -> None:
    busy = process(GPU, gpu_memory_percent=1.0, **POLLS)
    sleeps_in_cuda = process(OWN, "do_poll.constprop.0", gpu_memory_percent=1.0)
    moves = process(OWN, is_same_place=False, **POLLS)
    without_stack = process(kernel="hrtimer_nanosleep", problem="py-spy isn't installed")
    assert not any(judge([rank(0, busy), rank(1, one)]).is_hang for one in (sleeps_in_cuda, moves, without_stack))


def test_rank_whose_gpu_accesses_its_memory_is_working(messages: Messages) -> None:
    computes = process(GPU, gpu_memory_percent=3.0, cpu_s=5.0, main_cpu_s=5.0)
    assert judge([rank(0, computes)]).stillness is Stillness.BUSY
    said = judge([rank(0, process(GPU, cpu_s=5.0, main_cpu_s=5.0)), rank(1, computes)])
    assert said.stillness is Stillness.SLOW
    messages.check(said.sentence)
    in_barrier = process(ALL_REDUCE, gpu_memory_percent=3.0, cpu_s=5.0, main_cpu_s=5.0)
    assert judge([rank(0, in_barrier), rank(1, in_barrier)]).stillness is Stillness.BUSY
    asleep_in_gloo = process(ALL_REDUCE, "futex_do_wait", gpu_memory_percent=3.0)
    assert judge([rank(0, asleep_in_gloo), rank(1, process(OWN, "futex_do_wait"))]).is_hang


def test_rank_that_goes_on_on_its_gpu_computes(messages: Messages) -> None:
    said = judge([rank(0, WAITING), rank(1, process(GPU, is_same_place=False, cpu_s=5.0, main_cpu_s=5.0))])
    assert said.stillness is Stillness.SLOW
    messages.check(said.sentence)


def test_stopped_rank_is_named_by_the_kernel_without_stacks() -> None:
    blind = process(kernel="futex_do_wait", problem="py-spy isn't installed")
    said = judge([rank(0, blind), rank(1, replace(blind, state="T"))])
    assert (said.stillness, said.rank) == (Stillness.HUNG, 1)


def test_report_has_every_frame_and_why_there_is_none() -> None:
    facts = NodeFacts(5.0, (RankFacts(0, (WAITING,)), RankFacts(1, (process(problem="no py-spy"),))))
    text = stack_report.text([stack_report.node_stacks(0, "gpu-1", facts)])
    assert "rank 0 on node 0 (gpu-1) waits in all_reduce at train.py:40" in text
    assert f"all_reduce ({SITE}/torch/distributed/distributed_c10d.py:3252)" in text
    assert "no stack: no py-spy" in text


RECORDED = [
    one
    for name in ("hang_facts.json", "hang_facts_gpu.json")
    for one in json.loads(Path(__file__).with_name(name).read_text(encoding="utf-8"))
]


@pytest.mark.parametrize("recorded", RECORDED, ids=[one["case"] for one in RECORDED])
def test_recorded_silence_gets_its_recorded_verdict(recorded: dict[str, Any]) -> None:
    facts = {int(node): from_wire(NodeFacts, answer) for node, answer in recorded["answers"].items()}
    activities = [one for node, answer in facts.items() for one in stack_report.activities(node, answer)]
    ranks = set(range(recorded["ranks"]))
    said = judge(activities, ranks - {one.rank for one in activities})
    assert (said.stillness.value, said.rank) == (recorded["verdict"]["stillness"], recorded["verdict"]["rank"])


BY_CASE = {one["case"]: one for one in RECORDED}
ON_GPU = [
    one["case"] for one in json.loads(Path(__file__).with_name("hang_facts_gpu.json").read_text(encoding="utf-8"))
]
PROVEN = {
    "lock beside NCCL", "sleep beside NCCL, value read", "stopped rank beside NCCL, value read",
    "loader's worker in a lock beside NCCL", "loader's worker asleep beside NCCL, value read",
    "sleep beside the gradient exchange of NCCL", "collective of NCCL that one rank leaves out",
}  # fmt: skip
"""Hangs in which one rank is blocked for all to see."""


def judged_at(case: str, percent: float) -> HangVerdict:
    """What a recorded silence would be if the driver had said this of each process's GPU."""
    activities: list[Activity] = []
    for node, answer in BY_CASE[case]["answers"].items():
        recorded = from_wire(NodeFacts, answer)
        for facts in recorded.ranks:
            on_gpu = (replace(one, gpu_memory_percent=percent, has_device=True) for one in facts.processes)
            activities.append(for_rank(int(node), replace(facts, processes=tuple(on_gpu)), recorded.seconds))
    return judge(activities)


@pytest.mark.parametrize("case", ON_GPU)
def test_recorded_hang_on_a_busy_gpu_is_reported_if_a_rank_is_provably_blocked(case: str) -> None:
    said = judged_at(case, 1.0)
    assert said.is_hang == (case in PROVEN)
    assert not said.is_certain


@pytest.mark.parametrize("case", [one for one in ON_GPU if not BY_CASE[one]["is_hang"]])
def test_recorded_work_on_a_gpu_that_seems_at_rest_is_never_a_certain_hang(case: str) -> None:
    said = judged_at(case, 0.0)
    assert not said.is_certain
    assert said.needs_time or not said.is_hang

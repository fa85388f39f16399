"""How a rank has spent its time, from samples of its stack and from the kernel."""

from dataclasses import replace

import pytest

from drumbeat.core.diagnosis.hangs.hang_verdict import HangVerdict
from drumbeat.core.diagnosis.hangs.straggler_phases import RankPhases, from_samples
from drumbeat.core.diagnosis.hangs.stragglers import WaitRecord
from drumbeat.model.stacks import ProgramSamples, RankFacts, StackFrame, StackSample
from tests.support.messages import Messages

pytestmark = pytest.mark.feature("F4")

TORCH = "/env/lib/python3.11/site-packages/torch"
MODULE = StackFrame("<module>", "/job/train.py", 40)
ALL_REDUCE = (StackFrame("all_reduce", f"{TORCH}/distributed/distributed_c10d.py", 1), MODULE)
BACKWARD = (StackFrame("_engine_run_backward", f"{TORCH}/autograd/graph.py", 1), StackFrame("step", "/job/train.py", 9))
LOADER = (StackFrame("_try_get_data", f"{TORCH}/utils/data/dataloader.py", 1), StackFrame("read", "/job/data.py", 14))
FORWARD = (StackFrame("linear", f"{TORCH}/nn/functional.py", 1), MODULE)
SYNCHRONIZE = (StackFrame("synchronize", f"{TORCH}/cuda/__init__.py", 1), MODULE)
HOROVOD = (StackFrame("synchronize", "/env/lib/python3.11/site-packages/horovod/torch/mpi_ops.py", 1), MODULE)
LOCK = (StackFrame("wait", "/usr/lib/python3.11/threading.py", 1), MODULE)
CHILD = (StackFrame("wait", "/usr/lib/python3.11/subprocess.py", 1), StackFrame("<module>", "/job/launch.py", 3))


KNOWN = {
    "sync": ALL_REDUCE, "backward": BACKWARD, "data": LOADER, "forward": FORWARD, "child": CHILD, "device": SYNCHRONIZE,
    "horovod": HOROVOD, "lock": LOCK,
}  # fmt: skip


def program(ready_s: float = 2.0, **stacks: int) -> ProgramSamples:
    samples = tuple(StackSample(KNOWN[name], count) for name, count in stacks.items())
    return ProgramSamples(2.0, samples, ready_s=ready_s, sleeps=7)


def phases(*programs: ProgramSamples) -> RankPhases:
    found = from_samples(1, RankFacts(3, programs=programs))
    assert found is not None
    assert (found.rank, found.node, found.sleeps) == (3, 1, 7)
    return found


def parts(one: RankPhases) -> tuple[float, float, float, str]:
    return round(one.sync, 3), round(one.data, 3), round(one.compute, 3), one.place


def test_collectives_loaders_and_computation_are_distinguished() -> None:
    assert parts(phases(program(0.8, sync=20, data=4, forward=16))) == (0.5, 0.1, 0.4, "train.py:40")
    assert parts(phases(program(0.0, sync=8, data=24, forward=8))) == (0.2, 0.6, 0.2, "data.py:14")


def test_backward_is_a_wait_for_as_long_as_the_thread_slept() -> None:
    assert parts(phases(program(2.0, backward=30, forward=10))) == (0.0, 0.0, 1.0, "train.py:9")
    assert parts(phases(program(0.8, backward=30, forward=10))) == (0.6, 0.0, 0.4, "train.py:9")
    slept_in_the_loader_too = phases(program(0.8, backward=20, data=10, forward=10))
    assert parts(slept_in_the_loader_too) == (0.35, 0.25, 0.4, "train.py:9")


def test_polling_wait_counts_as_a_wait() -> None:
    assert parts(phases(program(2.0, sync=30, forward=10)))[0] == 0.75


def test_rank_that_sleeps_in_its_own_code_is_asleep() -> None:
    assert phases(program(0.1, forward=40)).is_asleep
    assert not phases(program(1.0, sync=20, forward=20)).is_asleep


def test_program_that_waits_for_another_one_is_not_what_trains() -> None:
    assert phases(program(0.0, child=40), program(2.0, sync=10, forward=30)).sync == 0.25


def test_too_few_samples_say_nothing() -> None:
    assert from_samples(0, RankFacts(0, programs=(program(2.0, forward=9),))) is None
    assert from_samples(0, RankFacts(0)) is None


def test_wait_for_the_gpu_is_neither_one_for_others_nor_work() -> None:
    one = phases(program(0.2, device=20, data=8, forward=12))
    assert parts(one)[:3] == (0.0, 0.2, 0.0)
    assert one.undecided == pytest.approx(0.8)


def test_wait_for_the_gpu_in_a_data_set_loads_no_data() -> None:
    in_loader = ProgramSamples(2.0, (StackSample((SYNCHRONIZE[0], *LOADER), 40),), sleeps=7)
    assert phases(in_loader).undecided == 1.0


def test_only_time_without_a_gpu_is_classified_while_a_device_is_open() -> None:
    one = phases(replace(program(0.2, backward=8, forward=8, lock=4, data=4, child=6, sync=10), has_device=True))
    assert parts(one)[:3] == (0.25, 0.1, 0.15)
    assert one.undecided == pytest.approx(0.5)


def test_rank_that_polls_is_seen_elsewhere_by_its_stacks_alone() -> None:
    polls = phases(replace(program(0.1, sync=36, forward=4), new_sleeps=200))
    assert (polls.polls, polls.waits_at, round(polls.elsewhere, 3)) == (True, "all_reduce at train.py:40", 0.1)
    sleeps = phases(replace(program(0.1, sync=36, forward=4), new_sleeps=3))
    assert not sleeps.polls
    assert phases(program(0.1, horovod=40)).polls


def named(first: ProgramSamples, *others: ProgramSamples, looks: int = 12) -> HangVerdict | None:
    """Returns the verdict of looks at ranks of one node, which sleep a thousand times from one look to the next."""
    record = WaitRecord()
    for number in range(looks):
        ranks = (
            from_samples(0, RankFacts(rank, programs=(replace(one, sleeps=1000 * number),)))
            for rank, one in enumerate((first, *others))
        )
        record.take([one for one in ranks if one is not None])
    return record.slow()


@pytest.mark.parametrize(
    ("first", "other"),
    [
        (program(2.0, forward=36, data=4), program(0.2, device=32, forward=8)),
        (
            replace(program(2.0, forward=40), has_device=True),
            replace(program(0.2, sync=32, forward=8), has_device=True),
        ),
        (
            replace(program(1.8, forward=40), cpu_s=2.0, has_device=True),
            replace(program(0.1, backward=38, forward=2), cpu_s=1.9, has_device=True),
        ),
        (
            replace(program(1.8, forward=40), has_device=True),
            replace(program(0.0, backward=38, forward=2), has_device=True),
        ),
        (program(2.0, forward=40), program(0.1, horovod=40)),
        (program(2.0, forward=40), replace(program(0.1, sync=40), new_sleeps=200)),
        (program(2.0, forward=40), replace(program(0.1, backward=40), new_sleeps=1800)),
    ],
    ids=[
        "item and synchronize", "item and barrier", "backward on a GPU", "backward while the GPU works",
        "one long wait of Horovod", "one long wait that polls", "one long backward that polls",
    ],
)  # fmt: skip
def test_no_rank_is_named_for_what_may_be_no_wait_or_one_only(first: ProgramSamples, other: ProgramSamples) -> None:
    assert named(first, other, other, other) is None


def test_ranks_whose_waits_end_are_named_whether_they_poll_or_not() -> None:
    slow = program(2.0, forward=40)
    assert named(slow, program(0.1, backward=36, forward=4)) is not None
    assert named(slow, program(0.1, horovod=36, forward=4)) is not None
    assert named(slow, replace(program(0.1, sync=36, forward=4), new_sleeps=200)) is not None


def test_rank_that_loads_data_is_named_though_gpus_are_open(messages: Messages) -> None:
    loads = replace(program(0.2, data=36, forward=4), has_device=True)
    said = named(loads, replace(program(0.2, sync=34, forward=6), has_device=True))
    assert said is not None
    messages.check(said.sentence)

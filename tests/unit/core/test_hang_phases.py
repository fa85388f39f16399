"""How a rank has spent its time, from samples of its stack and from the kernel."""

import pytest

from drumbeat.core.diagnosis.hangs.phases import RankPhases, of_samples
from drumbeat.protocol.stacks import ProgramSamples, RankFacts, StackFrame, StackSample

pytestmark = pytest.mark.feature("F4")

TORCH = "/env/lib/python3.11/site-packages/torch"
MODULE = StackFrame("<module>", "/job/train.py", 40)
ALL_REDUCE = (StackFrame("all_reduce", f"{TORCH}/distributed/distributed_c10d.py", 1), MODULE)
BACKWARD = (StackFrame("_engine_run_backward", f"{TORCH}/autograd/graph.py", 1), StackFrame("step", "/job/train.py", 9))
LOADER = (StackFrame("_try_get_data", f"{TORCH}/utils/data/dataloader.py", 1), StackFrame("read", "/job/data.py", 14))
FORWARD = (StackFrame("linear", f"{TORCH}/nn/functional.py", 1), MODULE)
CHILD = (StackFrame("wait", "/usr/lib/python3.11/subprocess.py", 1), StackFrame("<module>", "/job/launch.py", 3))


def program(ready_s: float = 2.0, **stacks: int) -> ProgramSamples:
    known = {"sync": ALL_REDUCE, "backward": BACKWARD, "data": LOADER, "forward": FORWARD, "child": CHILD}
    samples = tuple(StackSample(known[name], count) for name, count in stacks.items())
    return ProgramSamples(2.0, samples, ready_s=ready_s, sleeps=7)


def phases(*programs: ProgramSamples) -> RankPhases:
    found = of_samples(1, RankFacts(3, programs=programs))
    assert found is not None
    assert (found.rank, found.node, found.sleeps) == (3, 1, 7)
    return found


def parts(one: RankPhases) -> tuple[float, float, float, str]:
    return round(one.sync, 3), round(one.data, 3), round(one.compute, 3), one.place


def test_collectives_loaders_and_all_else_are_told_apart() -> None:
    assert parts(phases(program(0.8, sync=20, data=4, forward=16))) == (0.5, 0.1, 0.4, "train.py:40")
    assert parts(phases(program(0.0, sync=8, data=24, forward=8))) == (0.2, 0.6, 0.2, "data.py:14")


def test_backward_is_a_wait_for_as_long_as_the_thread_slept() -> None:
    assert parts(phases(program(2.0, backward=30, forward=10))) == (0.0, 0.0, 1.0, "train.py:9")
    assert parts(phases(program(0.8, backward=30, forward=10))) == (0.6, 0.0, 0.4, "train.py:9")
    slept_in_the_loader_too = phases(program(0.8, backward=20, data=10, forward=10))
    assert parts(slept_in_the_loader_too) == (0.35, 0.25, 0.4, "train.py:9")


def test_wait_in_which_a_rank_polls_is_one_though_it_never_sleeps() -> None:
    assert parts(phases(program(2.0, sync=30, forward=10)))[0] == 0.75


def test_rank_that_sleeps_in_its_own_code_is_asleep() -> None:
    assert phases(program(0.1, forward=40)).is_asleep
    assert not phases(program(1.0, sync=20, forward=20)).is_asleep


def test_program_that_waits_for_another_one_is_not_what_trains() -> None:
    assert phases(program(0.0, child=40), program(2.0, sync=10, forward=30)).sync == 0.25


def test_too_few_samples_say_nothing() -> None:
    assert of_samples(0, RankFacts(0, programs=(program(2.0, forward=9),))) is None
    assert of_samples(0, RankFacts(0)) is None

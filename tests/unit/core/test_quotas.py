"""Quotas in the queue: who waits by which numbers, and whom that holds up."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drumbeat.core.scheduling.cluster_queue import enqueue
from drumbeat.core.scheduling.fair_share import HeldSlots
from drumbeat.core.scheduling.queued_job import Placement, QueuedJob
from drumbeat.core.scheduling.quota_balances import Balances
from drumbeat.core.scheduling.quotas import EVERYONE, Allowances, Payer, Quota, QuotaKind, quota_for, refused_waiting
from drumbeat.core.scheduling.resource_needs import Need, Slot
from drumbeat.core.scheduling.scheduler import place
from drumbeat.core.scheduling.slot_fitting import MachineCapacity, SlotAllocation
from drumbeat.model.states import Reason
from tests.support.messages import Messages

from .jobs import START, at

pytestmark = pytest.mark.feature("C9")
USER, EXPERIMENT = QuotaKind
BIG = [MachineCapacity("m", 64, tuple("0123456789abcdef"))]


def waits(job: str, user: str, cpus: int = 1, gpus: int = 0, **more: object) -> QueuedJob:
    second, experiment = float(str(more.get("second", 0))), str(more.get("experiment", "e"))
    need = Need(1, cpus, gpus, alone=bool(more.get("alone")))
    return QueuedJob(job, need, 0, at(second), payer=Payer(user, experiment))


def balances(*quotas: Quota, held: tuple[HeldSlots, ...] = ()) -> Balances:
    return Balances(Allowances(quotas, held))


def placed(queue: list[QueuedJob], balances: Balances, rooms: list[MachineCapacity] = BIG) -> dict[str, Placement]:
    holding = [
        SlotAllocation(one.job, (Slot(0, "m", one.slots, tuple("0123456789abcdef"[: one.gpus])),))
        for one in balances.allowances.held
    ]
    queue = sorted(queue, key=QueuedJob.rank)
    return {one.job: one for one in place(queue, rooms, holding, START, compute="local", balances=balances)}


def test_job_over_the_quota_of_its_person_waits_with_the_numbers(messages: Messages) -> None:
    held = (HeldSlots("local", "a", "alice", "e", 1, 8),)
    said = placed(
        [waits("b", "alice", gpus=2), waits("c", "bob", gpus=2)], balances(Quota(USER, "alice", gpus=8), held=held)
    )
    assert said["b"].reason is Reason.WAITING_FOR_QUOTA
    messages.check(said["b"].sentence)
    assert said["c"].slots


def test_quota_of_everyone_is_counted_for_each_person() -> None:
    said = placed(
        [waits(f"{who}{n}", who, cpus=2) for who in "ab" for n in range(3)], balances(Quota(USER, EVERYONE, 4))
    )
    assert [job for job, one in said.items() if one.slots] == ["a0", "a1", "b0", "b1"]


def test_own_quota_stands_in_place_of_everyones() -> None:
    quotas = [Quota(USER, EVERYONE, gpus=1), Quota(USER, "ada", slots=3)]
    assert quota_for(quotas, USER, "ada") == quotas[1]
    assert quota_for(quotas, USER, "bob") == quotas[0]
    assert quota_for(quotas, EXPERIMENT, "ada") is None


def test_quota_of_an_experiment_counts_all_its_persons(messages: Messages) -> None:
    quota = Quota(EXPERIMENT, "cifar", slots=3)
    queue = [waits("a", "ada", 2, experiment="cifar"), waits("b", "bob", 2, experiment="cifar"), waits("c", "bob", 2)]
    said = placed(queue, balances(quota))
    messages.check(said["b"].sentence)
    assert said["a"].slots
    assert said["c"].slots


def test_small_job_does_not_pass_a_larger_one_on_the_same_quota(messages: Messages) -> None:
    held = (HeldSlots("local", "x", "ada", "e", 3, 0),)
    queue = [waits("big", "ada", 4, second=1), waits("small", "ada", 1, second=2), waits("gpu", "ada", 0, 1, second=3)]
    said = placed(queue, balances(Quota(USER, "ada", slots=4), held=held))
    assert said["small"].reason is Reason.WAITING_FOR_QUOTA
    messages.check(said["small"].sentence)
    assert said["gpu"].slots, "it counts on no limit of the quota"


def test_job_larger_than_the_quota_waits_and_delays_no_other(messages: Messages) -> None:
    said = placed(
        [waits("huge", "ada", 9, second=1), waits("small", "ada", 1, second=2)], balances(Quota(USER, "ada", 8))
    )
    messages.check(said["huge"].sentence)
    assert said["small"].slots


def test_job_that_waits_for_slots_keeps_its_part_of_the_quota() -> None:
    held = (HeldSlots("local", "x", "bob", "e", 60, 0),)
    queue = [waits("big", "ada", 8, second=1), waits("small", "ada", 1, second=2)]
    said = placed(queue, balances(Quota(USER, "ada", 8), held=held))
    assert said["big"].reason is Reason.WAITING_FOR_SLOTS
    assert said["small"].reason is Reason.WAITING_FOR_QUOTA


def test_job_that_takes_a_whole_machine_counts_all_of_its_slots() -> None:
    said = placed([waits("all", "ada", 1, alone=True)], balances(Quota(USER, "ada", slots=63)))
    assert said["all"].reason is Reason.WAITING_FOR_QUOTA


def test_queue_of_a_cluster_is_handed_no_more_than_a_quota() -> None:
    queue = [waits(f"j{n}", "ada", 2, second=n) for n in range(3)]
    said = enqueue(queue, BIG, compute="slurm", balances=balances(Quota(USER, "ada", 4)))
    assert [bool(one.slots) for one in said] == [True, True, False]
    assert said[2].reason is Reason.WAITING_FOR_QUOTA


def test_two_attempts_of_a_job_count_twice() -> None:
    held = (HeldSlots("local", "x", "ada", "e", 2, 0), HeldSlots("local", "x", "ada", "e", 2, 0))
    said = placed([waits("a", "ada", 1)], balances(Quota(USER, "ada", 4), held=held))
    assert "uses 4 of 4 CPU slots" in said["a"].sentence


def test_one_more_waiting_job_is_refused_with_the_numbers(messages: Messages) -> None:
    quotas = [Quota(USER, "ada", waiting=2), Quota(EXPERIMENT, "e", waiting=9)]
    messages.check(refused_waiting(quotas, Payer("ada", "e"), {USER: 2, EXPERIMENT: 2}))
    assert refused_waiting(quotas, Payer("ada", "e"), {USER: 1, EXPERIMENT: 2}) == ""
    assert "experiment e" in refused_waiting(quotas, Payer("bob", "e"), {USER: 9, EXPERIMENT: 9})


LIMIT = st.integers(0, 6)
QUOTAS = st.lists(
    st.builds(
        Quota, st.sampled_from(QuotaKind), st.sampled_from(["a", "b", EVERYONE]), st.none() | LIMIT, st.none() | LIMIT
    ),
    max_size=4,
    unique_by=lambda quota: (quota.kind, quota.name),
)
JOBS = st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from("ab"), LIMIT, LIMIT), max_size=8)


@given(QUOTAS, JOBS)
def test_no_queue_takes_more_than_any_quota(quotas: list[Quota], jobs: list[tuple[str, str, int, int]]) -> None:
    queue = [waits(f"j{n}", who, cpus, gpus, second=n, experiment=of) for n, (who, of, cpus, gpus) in enumerate(jobs)]
    said = placed(queue, balances(*quotas))
    for kind in QuotaKind:
        for name in "ab":
            quota = quota_for(quotas, kind, name) or Quota(kind, name)
            payers = [job for job in queue if name == (job.payer.user if kind is USER else job.payer.experiment)]
            slots = [slot for job in payers for slot in said[job.job].slots]
            assert sum(slot.cpus for slot in slots) <= (99 if quota.slots is None else quota.slots)
            assert sum(len(slot.gpus) for slot in slots) <= (99 if quota.gpus is None else quota.gpus)

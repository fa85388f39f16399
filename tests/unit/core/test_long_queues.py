"""Long queues: what is found out once for many jobs is what each of them would hear for itself."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from drumbeat.core.scheduling.fair_share import HeldSlots, recent_use, slot_hours
from drumbeat.core.scheduling.occupancy import Occupancy
from drumbeat.core.scheduling.queued_job import QueuedJob
from drumbeat.core.scheduling.quota_balances import Balances
from drumbeat.core.scheduling.quotas import Allowances, Payer, Quota, QuotaKind
from drumbeat.core.scheduling.resource_needs import Need, Slot
from drumbeat.core.scheduling.scheduler import place, review
from drumbeat.core.scheduling.slot_fitting import MachineCapacity, SlotAllocation

NOW = datetime(2026, 1, 1, tzinfo=UTC)
MINUTES = (None, 1, 10, 60)


def a_limit(rng: random.Random) -> timedelta | None:
    minutes = rng.choice(MINUTES)
    return timedelta(minutes=minutes) if minutes else None


def machines(rng: random.Random) -> list[MachineCapacity]:
    states = ("",) * 9 + ("down",)
    gpus = [tuple(f"g{gpu}" for gpu in range(rng.choice((0, 2)))) for _ in range(rng.choice((1, 4, 9)))]
    return [MachineCapacity(f"m{number}", 8, own, rng.choice(states)) for number, own in enumerate(gpus)]


def holders(rng: random.Random, rooms: list[MachineCapacity]) -> list[SlotAllocation]:
    held: list[SlotAllocation] = []
    for number, room in enumerate(rooms * 2):
        gpus = room.gpus[number // len(rooms) :][: rng.choice((0, 1))]
        limit = a_limit(rng)
        slot = Slot(0, room.name, rng.choice((1, 2, 4)), gpus)
        held.append(SlotAllocation(f"h{number}", (slot,), NOW + limit if limit else None))
    return held


def a_queue(rng: random.Random) -> list[QueuedJob]:
    needs = [Need(rng.choice((1, 1, 2, 5)), rng.choice((1, 2, 8)), rng.choice((0, 0, 1))) for _ in range(3)]
    payers = [Payer(user, experiment) for user in ("ada", "bob") for experiment in ("e", "f")]
    return [
        QueuedJob(f"j{number:02}", rng.choice(needs), 0, NOW, a_limit(rng), payer=rng.choice(payers))
        for number in range(40)
    ]


def balances(rng: random.Random) -> Balances:
    quotas = (Quota(QuotaKind.USER, "ada", slots=rng.choice((2, 9))),) if rng.random() < 0.3 else ()
    return Balances(Allowances(quotas), {"ada": 1.0, "bob": 2.0})


@pytest.mark.parametrize("seed", range(60))
@pytest.mark.feature("C9")
def test_jobs_of_one_class_hear_what_each_would_hear_if_it_had_a_class_of_its_own(seed: int) -> None:
    rng = random.Random(seed)
    rooms, queue, standing = machines(rng), a_queue(rng), balances(rng)
    held = holders(rng, rooms)
    apart = [replace(job, lack=job.job) for job in queue]  # Nothing reads it of a job that lacks no share.
    assert place(queue, rooms, held, NOW, compute="c", balances=standing) == place(
        apart, rooms, held, NOW, compute="c", balances=standing
    )


@pytest.mark.parametrize("seed", range(30))
def test_an_occupancy_that_is_kept_up_to_date_gives_what_a_new_one_does(seed: int) -> None:
    rng = random.Random(seed)
    rooms, queue = machines(rng), a_queue(rng)
    pool = holders(rng, rooms)
    kept = Occupancy(rooms, pool)
    for _ in range(5):
        held = [one for one in pool if rng.random() < 0.7]
        kept.update(list(rooms), held)
        review(queue, kept, NOW, compute="c")
        assert review(queue, kept, NOW, compute="c") == review(queue, Occupancy(rooms, held), NOW, compute="c")


def test_recent_use_is_the_sum_of_what_each_attempt_has_used() -> None:
    half_life = timedelta(hours=3)
    held = [
        HeldSlots("c", f"j{hour}", "ada", "e", 4, hour, NOW - timedelta(hours=hour) if hour else None)
        for hour in range(-1, 5)
    ]
    assert recent_use((), held, NOW, half_life) == {"ada": sum(slot_hours(one, NOW, half_life) for one in held)}

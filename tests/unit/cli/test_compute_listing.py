"""Which machines of a large compute `drumbeat compute show` lists."""

from __future__ import annotations

from drumbeat.cli.commands.computes import MAX_MACHINES, first_machines, held_by_machine
from drumbeat.model.api.computes import ComputeView, HeldView, Machine


def compute(count: int) -> ComputeView:
    machines = tuple(Machine(f"m{n}", 8, unusable="down" if n == count - 1 else "") for n in range(count))
    return ComputeView("rack", "ssh", machines, (HeldView("j", 1, 0, "m0", 2, ()),), 0, "", {})


def test_of_many_machines_those_that_cannot_be_used_come_first() -> None:
    first = first_machines(compute(5000))
    assert (len(first), first[0].name, first[1].name) == (MAX_MACHINES, "m4999", "m0")


def test_few_machines_are_listed_in_their_order() -> None:
    assert [one.name for one in first_machines(compute(3))] == ["m0", "m1", "m2"]


def test_what_is_held_is_found_by_machine() -> None:
    assert {name: [one.job for one in held] for name, held in held_by_machine(compute(2)).items()} == {"m0": ["j"]}

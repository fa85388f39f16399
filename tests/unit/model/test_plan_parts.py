"""A plan is made of parts, and flat where it crosses processes: agents and clients of other versions read it."""

import dataclasses

from drumbeat.model import wire
from drumbeat.model.plan import HangRules, Plan, RankRuntime, StagedFiles

PLAN = Plan("j", "e", "pytorch", 1, 1, "true", (), code="c" * 64, environment="torch", hang_after_s=5.0)


def test_plan_is_flat_on_the_wire() -> None:
    sent = wire.to_wire(PLAN)
    assert list(sent) == [field.name for field in dataclasses.fields(Plan)]
    assert (sent["code"], sent["environment"], sent["hang_after_s"]) == ("c" * 64, "torch", 5.0)
    assert wire.from_wire(Plan, sent) == PLAN


def test_parts_of_a_plan_share_no_field() -> None:
    parts = [part for part in Plan.__bases__ if dataclasses.is_dataclass(part)]
    assert {StagedFiles, RankRuntime, HangRules} < set(parts)
    names = [field.name for part in parts for field in dataclasses.fields(part)]
    assert len(names) == len(set(names))

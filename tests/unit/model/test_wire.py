"""What crosses processes survives the crossing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drumbeat.model import errors, wire
from drumbeat.model.agent import AgentStatus, Directive, RankExit
from drumbeat.model.plan import Plan


@given(st.from_type(AgentStatus))
def test_a_status_survives(status: AgentStatus):
    text = wire.dumps(status)
    assert wire.dumps(wire.loads(AgentStatus, text)) == text  # As values, NaN wouldn't equal itself.


@given(st.from_type(Directive))
def test_a_directive_survives(directive: Directive):
    text = wire.dumps(directive)
    assert wire.dumps(wire.loads(Directive, text)) == text


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[]", "Plan: expected Plan, got list"),
        ('{"job": 1}', ".job: expected str, got int"),
        ('{"job": "j", "ranks": [{"rank": "x"}]}', ".ranks[0].rank: expected int, got str"),
        ('{"job": "j"}', "missing"),
        ('{"job": "j", "nodes": true}', ".nodes: expected int, got bool"),
    ],
)
def test_what_does_not_fit_is_named(text: str, says: str):
    with pytest.raises(ValueError, match=r".+") as caught:
        wire.loads(Plan, text)
    assert says in str(caught.value) or says.removeprefix("Plan: ") in str(caught.value)


def test_a_newer_sender_is_understood():
    assert wire.from_wire(Directive, {"order": "leave", "attempt": 1, "round": 2, "new": 3}).round == 2


@pytest.mark.parametrize("cls", sorted(errors.every_error().values(), key=lambda c: c.code))
def test_an_error_is_the_same_on_the_other_side(cls: type[errors.DrumbeatError]):
    error = cls("what", where="job.yml:1:2", fix="do this", fields=(errors.Problem("a", "b", "c"),))
    again = errors.from_dict(error.as_dict())
    assert type(again) is cls
    assert (again.what, again.where, again.fix, again.fields) == (error.what, error.where, error.fix, error.fields)


def test_refusal_is_not_read_as_an_error_of_this_process_alone():
    from drumbeat.node.platform.unusable_node import UnusableNodeError  # Any process may have loaded it.

    again = errors.from_dict(UnusableNodeError("what").as_dict())
    assert type(again) is errors.RefusedError


def test_codes_are_unique():
    assert len(errors.every_error()) == len(set(errors.every_error().values()))


def test_a_field_with_a_key_of_its_own_is_read_and_written_by_that_key():
    stopped = RankExit(0, 143, None, 1.0, 0, is_stopped=True)
    form = wire.to_wire(stopped)
    assert form["told"] is True
    assert "is_stopped" not in form
    assert wire.from_wire(RankExit, form) == stopped

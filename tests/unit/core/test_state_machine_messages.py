"""What nodes say of how they have what the ranks need is told once, and stays in the story."""

from __future__ import annotations

from drumbeat.core.lifecycle.events import Placed
from drumbeat.core.lifecycle.state_machine import decide
from drumbeat.model.agent import NodeMessage, Phase
from drumbeat.model.states import State
from tests.support.messages import Messages

from .jobs import START, a_job, after, said, slots

MOUNTED = NodeMessage("input data", "input data is mounted")
UNREAD = NodeMessage("unread of input data", "input data: x can't be read")


def test_events_have_one_message_for_each_subject(messages: Messages):
    job = after(a_job(), Placed(slots()))
    first = decide(job, said(0, Phase.STAGING, messages=(MOUNTED,)), START)
    messages.check(*[line.sentence for line in first.events])
    again = decide(first.job, said(0, Phase.STAGING, messages=(MOUNTED,), serial=1), START)
    other = decide(again.job, said(1, Phase.STAGING, messages=(MOUNTED, UNREAD)), START)
    told = [line.sentence for line in (*again.events, *other.events) if line.sentence.startswith("node")]
    messages.check(*told)


def test_status_with_a_message_still_changes_the_phase(messages: Messages):
    job = after(a_job(nodes=1), Placed(slots(1)))
    found = decide(job, said(0, Phase.READY, messages=(MOUNTED,)), START)
    assert found.job.state is State.RUNNING
    messages.check(found.events[0].sentence)


def test_new_attempt_reports_messages_again_and_an_old_one_none():
    job = after(a_job(), Placed(slots()), said(0, Phase.STAGING, messages=(MOUNTED,)))
    assert job.reported_subjects == ("input data",)
    assert decide(job, said(0, Phase.STAGING, attempt=2, messages=(UNREAD,)), START).events == ()
    assert decide(job, said(0, Phase.STAGING, attempt=0, messages=(UNREAD,)), START).events == ()

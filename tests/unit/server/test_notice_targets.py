"""Notice targets as they are kept and shown."""

from __future__ import annotations

import pytest

from drumbeat.server.notices.notice_targets import NoticeTargets
from tests.support.memory_store import MemoryStore

pytestmark = pytest.mark.feature("M11")


def test_problem_of_a_target_is_shown_until_it_is_created_again():
    targets = NoticeTargets(MemoryStore(), b"k" * 32)
    document = {"name": "slack", "type": "webhook", "credentials": {"url": "https://hooks.example/hush"}}
    assert targets.create(document, "slack.yml")[1]
    targets.note("slack", "hooks.example gives no answer")
    shown = targets.show("slack")
    assert (shown.place, shown.problem) == ("hooks.example", "hooks.example gives no answer")
    assert "hush" not in repr(targets.list())
    made, is_new = targets.create(document, "slack.yml")
    assert (made.problem, is_new, targets.show("slack").problem) == ("", False, "")

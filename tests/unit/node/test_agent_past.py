"""An agent that comes after another one knows what became of the round before it speaks to the server."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from drumbeat.model.agent import AgentStatus, Enrolment, Phase
from drumbeat.model.plan import Plan
from drumbeat.model.supervisor import SupervisorState
from drumbeat.node.agent.agent import EXIT_LEFT, Agent

STATE = SupervisorState(pid=1, round=1, over=False, stopping=True)


@pytest.mark.feature("F1")
@pytest.mark.parametrize("has_supervisor", [True, False])
def test_message_before_the_first_state_is_not_taken_for_the_supervisors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_supervisor: bool
):
    (tmp_path / "keeper").mkdir()
    (tmp_path / "keeper" / "round.json").touch()
    plan = Plan("j", "e", "pytorch", 1, 1, "true", ())
    agent = Agent(Enrolment("j", 1, 0, (), "s", str(tmp_path), "/c", plan))
    post, said = agent._inbox.put, list[AgentStatus]()
    word = partial(agent._on_supervisor, STATE) if has_supervisor else partial(agent._on_supervisor_trouble, "no room")

    def begin(first: AgentStatus) -> None:
        said.append(first)
        agent._exit = EXIT_LEFT

    monkeypatch.setattr(agent, "_follow_logs", lambda: None)
    monkeypatch.setattr(agent._mounts, "adopt", lambda: post(agent._on_message))
    monkeypatch.setattr(agent._supervisor, "begin", lambda **_: post(word))
    monkeypatch.setattr(agent._reporter, "begin", begin)
    monkeypatch.setattr(agent._reporter, "report", lambda _: None)
    agent.run()
    assert [(one.round, one.phase) for one in said] == [(1, Phase.RUNNING) if has_supervisor else (0, Phase.ENROLLED)]

"""Removes the containers that a round leaves behind, in a thread beside the agent's own."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from drumbeat.model.agent import WAITS, Enrolment, NodeMessage
from drumbeat.model.errors import DrumbeatError
from drumbeat.node.agent.inbox import Inbox
from drumbeat.node.agent.next_step import AttemptFacts, RoundFacts
from drumbeat.node.images import container_engine
from drumbeat.node.platform.agent_log import Journal


class RoundContainers:
    """Removes the containers of each round, and records in `facts` whether some may still run.

    Used by the agent's own thread. remember: stores a message for the user.
    """

    def __init__(
        self,
        enrolment: Enrolment,
        journal: Journal,
        inbox: Inbox,
        facts: AttemptFacts,
        remember: Callable[[NodeMessage], None],
    ) -> None:
        self._root, self._node = enrolment.root, enrolment.node
        self._journal, self._inbox, self._facts, self._remember = journal, inbox, facts, remember

    def clear(self) -> None:
        """Removes the round's containers before it counts as over: the next round needs what they hold."""
        here = self._facts.round
        here.clearing = True
        say = self._inbox.posting(partial(self._on_clearing, here))
        self._inbox.beside(
            "containers", partial(container_engine.clear_all, self._root, say), partial(self._on_cleared, here)
        )

    def _on_clearing(self, here: RoundFacts, why: str) -> None:
        if here is self._facts.round:
            self._facts.detail = f"the end of the round{WAITS}{why}"
            self._journal.note(self._facts.detail)

    def _on_cleared(self, here: RoundFacts, error: DrumbeatError | None) -> None:
        here.clearing = False
        if error:
            self._journal.note(error.what)
            self._remember(NodeMessage(f"containers of round {here.number} on node {self._node}", error.what))
        if here is self._facts.round:
            self._facts.detail = ""

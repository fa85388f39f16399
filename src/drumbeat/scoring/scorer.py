"""What a scoring server runs: a script, an MLflow model or a program behind it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from drumbeat.scoring.messages import ScoringAnswer, ScoringRequest


class ScorerError(Exception):
    """What is to be served can't be loaded; says why."""


class Scorer(Protocol):
    """Answers requests. Its methods are called on worker threads, `init` on the main thread before all others."""

    can_batch: bool
    """Whether `score_many` costs less than `score` for each."""

    def init(self) -> None:
        """Loads what is served. Raises ScorerError."""
        ...

    def immediate(self, request: ScoringRequest) -> ScoringAnswer | None:
        """An answer that needs no model, such as a probe's; None = the request is for `score`."""
        ...

    def score(self, request: ScoringRequest) -> ScoringAnswer:
        """Answers one request."""
        ...

    def score_many(self, requests: Sequence[ScoringRequest]) -> list[ScoringAnswer]:
        """Answers several requests at once, in their order."""
        ...

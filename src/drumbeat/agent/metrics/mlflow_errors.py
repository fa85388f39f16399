"""Refusals in MLflow's form: a code of its protocol, an HTTP status, a sentence.

MLflow's clients try again after 408, 429 and 5xx, for minutes; a refusal for good is another 4xx.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

INVALID, MISSING, EXISTS = "INVALID_PARAMETER_VALUE", "RESOURCE_DOES_NOT_EXIST", "RESOURCE_ALREADY_EXISTS"
FULL, AWAY, NO_ROUTE = "RESOURCE_EXHAUSTED", "TEMPORARILY_UNAVAILABLE", "ENDPOINT_NOT_FOUND"
NOT_IMPLEMENTED, LATE = "NOT_IMPLEMENTED", "DEADLINE_EXCEEDED"
_STATUS = {
    INVALID: 400, MISSING: 404, EXISTS: 400, FULL: 400, AWAY: 503, NO_ROUTE: 404, NOT_IMPLEMENTED: 501, LATE: 400,
}  # fmt: skip


@dataclass(frozen=True)
class HttpAnswer:
    """What an HTTP client is answered."""

    status: int
    body: bytes
    content_type: str = "application/json"


class MlflowError(Exception):
    """A request that isn't carried out. code: MLflow's own word."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code, self.message = code, message

    @property
    def answer(self) -> HttpAnswer:
        """The error as an MLflow client reads it."""
        body = json.dumps({"error_code": self.code, "message": self.message}).encode()
        return HttpAnswer(_STATUS.get(self.code, 400), body)


class MissingError(MlflowError):
    """There is no such thing on this node; the server may have it."""

    def __init__(self, message: str) -> None:
        super().__init__(MISSING, message)


def json_answer(value: object) -> HttpAnswer:
    """Returns the value as the body of a successful answer."""
    return HttpAnswer(200, json.dumps(value).encode())

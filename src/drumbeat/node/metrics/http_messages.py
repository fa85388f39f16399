"""Requests of a rank's client to the endpoint of its node, and the answers."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import cast
from urllib.parse import parse_qs, urlsplit

from drumbeat.model.metrics import JsonObject


@dataclass(frozen=True)
class Read:
    """One request. path: with its query."""

    method: str
    path: str
    body: bytes
    content_type: str
    rank: int

    @property
    def route(self) -> str:
        """The path below `/api/2.0/mlflow/`."""
        return urlsplit(self.path).path.rpartition("/mlflow/")[2]

    @property
    def makes(self) -> bool:
        """Whether the request creates something, so that it must not be carried out twice."""
        return self.method == "POST" and (self.route.endswith("/create") or self.route == "logged-models")

    @property
    def fields(self) -> JsonObject:
        """The query of a GET, the JSON of any other request."""
        if self.method == "GET":
            return {key: values[0] for key, values in parse_qs(urlsplit(self.path).query).items()}
        try:
            body: object = json.loads(self.body or b"{}")
        except ValueError:
            return {}
        return cast("JsonObject", body) if isinstance(body, dict) else {}


@dataclass(frozen=True)
class HttpAnswer:
    """The answer to an HTTP client."""

    status: int
    body: bytes
    content_type: str = "application/json"


def json_answer(value: object, status: int = 200) -> HttpAnswer:
    """Returns the answer whose body is this value."""
    return HttpAnswer(status, json.dumps(value).encode())

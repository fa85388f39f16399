"""Requests of MLflow's clients as the server and the endpoints on nodes read them, and how they are refused.

Field names are those of MLflow's `service.proto`. Clients send whole numbers as numbers or texts, and null for what
they don't set. They repeat a request for minutes after 408, 429 and 5xx: a refusal for good is another 4xx.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import cast

from drumbeat.model.metric_lines import storable_text
from drumbeat.model.metrics import JsonObject

VERSION = "3.17.2"
"""The newest version of MLflow whose client is tested; clients ask for it."""
SERVER_INFO: JsonObject = {
    "store_type": "drumbeat",
    "workspaces_enabled": False,
    "trace_archival_enabled": False,
    "multipart_uploads_enabled": False,
    "multipart_downloads_enabled": False,
}
"""What clients of version 3 ask before they send large files."""
NO_MULTIPART = "Multipart upload is not supported for the current artifact repository"
"""The words by which MLflow's clients know that a file is to be sent in one piece."""

INVALID, MISSING, EXISTS = "INVALID_PARAMETER_VALUE", "RESOURCE_DOES_NOT_EXIST", "RESOURCE_ALREADY_EXISTS"
FULL, AWAY, LATE = "RESOURCE_EXHAUSTED", "TEMPORARILY_UNAVAILABLE", "DEADLINE_EXCEEDED"
NO_ROUTE, NOT_IMPLEMENTED, DISABLED = "ENDPOINT_NOT_FOUND", "NOT_IMPLEMENTED", "FEATURE_DISABLED"
DENIED, INTERNAL = "PERMISSION_DENIED", "INTERNAL_ERROR"
_STATUSES = {MISSING: 404, AWAY: 503, NO_ROUTE: 404, NOT_IMPLEMENTED: 501, DISABLED: 403, DENIED: 403, INTERNAL: 500}

_MAX_INT = 2**63 - 1
_PRIMITIVES = (str, int, float)


class MlflowRefusal(Exception):
    """A request that isn't carried out. code: MLflow's own word for it."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code, self.message = code, message

    @property
    def status(self) -> int:
        """The HTTP status of the answer."""
        return _STATUSES.get(self.code, 400)

    @property
    def body(self) -> JsonObject:
        """The JSON of the answer."""
        return {"error_code": self.code, "message": self.message}


def invalid(message: str) -> MlflowRefusal:
    """Returns the refusal of a request that isn't as the protocol says."""
    return MlflowRefusal(INVALID, message)


def missing(message: str) -> MlflowRefusal:
    """Returns the refusal of a request for something that doesn't exist."""
    return MlflowRefusal(MISSING, message)


@dataclass(frozen=True)
class MlflowArguments:
    """The arguments of a request. Every method raises MlflowRefusal for one that doesn't fit."""

    arguments: JsonObject
    """Of the body, of the query, and of the variable parts of the address."""

    def text(self, *names: str) -> str:
        """Returns the argument that has the first of these names that is present; it must not be empty."""
        for name in names:
            if given := self.text_or(name):
                return given
        raise invalid(f"Missing value for required parameter '{names[0]}'.")

    def text_or(self, name: str, default: str = "") -> str:
        """Returns a text, or the default."""
        value = self.arguments.get(name)
        if value is None:
            return default
        if isinstance(value, dict | list):
            raise invalid(f"Invalid value for parameter '{name}': expected a text.")
        return str(value)

    def number(self, name: str) -> int | None:
        """Returns a whole number, None if it isn't given."""
        value = self.arguments.get(name)
        return None if value is None else whole(value, name)

    def objects(self, name: str) -> list[JsonObject]:
        """Returns a list of objects; one that isn't given is empty."""
        value = cast("object", self.arguments.get(name) or [])
        if isinstance(value, list) and all(isinstance(one, dict) for one in cast("list[object]", value)):
            return cast("list[JsonObject]", value)
        raise invalid(f"Invalid value for parameter '{name}': expected a list of objects.")

    def tags(self, name: str = "tags") -> dict[str, str]:
        """Returns a list of `{key, value}` as a table."""
        return pairs(self.objects(name))


def whole(value: object, name: str) -> int:
    """Returns a value as a whole number of 64 bits. Raises MlflowRefusal."""
    if isinstance(value, int | float | str) and not isinstance(value, bool):
        try:
            if abs(number := int(value)) <= _MAX_INT:
                return number
        except (ValueError, OverflowError):
            pass
    raise invalid(f"Invalid value {value!r} for parameter '{name}': expected a whole number."[:300])


def pair(one: JsonObject) -> tuple[str, str]:
    """Returns an object with a key and a value. Raises MlflowRefusal."""
    key, value = one.get("key"), one.get("value")
    if not isinstance(key, str) or not (value is None or isinstance(value, _PRIMITIVES)):
        raise invalid(f"Missing value for required parameter 'key': {one!r}"[:300])
    return storable_text(key), "" if value is None else storable_text(str(value))


def pairs(objects: Iterable[JsonObject]) -> dict[str, str]:
    """Returns objects with a key and a value as a table. Raises MlflowRefusal."""
    return dict(pair(one) for one in objects)

"""One request of an MLflow client, and the checks of its arguments."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from drumbeat.ports import RunFiles
from drumbeat.ports.metrics import MetricStore, Run
from drumbeat.protocol.errors import NotFoundError
from drumbeat.protocol.metrics import JsonObject
from drumbeat.server.mlflow.errors import invalid, missing
from drumbeat.server.mlflow.write_scope import OWNER, WriteScope

_MAX_INT = 2**63 - 1


@dataclass(frozen=True)
class Call:
    """A request whose address is known. Every method that reads an argument raises MlflowRefusal if it doesn't fit.

    MLflow's clients send whole numbers as numbers or texts, and null for what they don't set.
    """

    store: MetricStore
    files: RunFiles
    arguments: JsonObject
    """Of the body, or of the query."""
    parts: Mapping[str, str] = field(default_factory=dict[str, str])
    """What the address's variable parts are."""
    rank: int = 0
    """The rank of the job that asks; 0 outside of jobs."""
    scope: WriteScope | None = None
    """What the caller may change; None = everything."""
    now_ms: int = field(default_factory=lambda: time.time_ns() // 1_000_000)

    def text(self, *names: str) -> str:
        """Returns the argument that has the first of these names that is present; it must not be empty."""
        for name in names:
            if given := self.text_or(name):
                return given
        raise invalid(f"Missing value for required parameter '{names[0]}'.")

    def text_or(self, name: str, default: str = "") -> str:
        """Returns a text, or the default."""
        value = self.parts.get(name, self.arguments.get(name))
        if value is None:
            return default
        if isinstance(value, dict | list):
            raise invalid(f"Invalid value for parameter '{name}': expected a text.")
        return str(value)

    def number(self, name: str) -> int | None:
        """Returns a whole number, None if it isn't given."""
        value = self.arguments.get(name)
        return None if value is None else whole(value, name)

    def limit(self, default: int, most: int) -> int:
        """Returns `max_results`."""
        limit = self.number("max_results")
        if limit is None:
            return default
        if not 0 < limit <= most:
            raise invalid(f"Invalid value {limit} for parameter 'max_results': it must be from 1 to {most}.")
        return limit

    def flag(self, name: str) -> bool:
        """Returns a boolean; one that isn't given is false."""
        return str(self.arguments.get(name)).lower() in ("true", "1")

    def texts(self, name: str) -> list[str]:
        """Returns a list of texts; one that isn't given is empty."""
        value = self.arguments.get(name)
        given = [value] if not isinstance(value, list) else cast("list[object]", value)
        return [str(one) for one in given if one is not None]

    def objects(self, name: str) -> list[JsonObject]:
        """Returns a list of objects; one that isn't given is empty."""
        value = cast("object", self.arguments.get(name) or [])
        if isinstance(value, list) and all(isinstance(one, dict) for one in cast("list[object]", value)):
            return cast("list[JsonObject]", value)
        raise invalid(f"Invalid value for parameter '{name}': expected a list of objects.")

    def tags(self, name: str = "tags") -> dict[str, str]:
        """Returns a list of `{key, value}` as a table."""
        return pairs(self.objects(name))

    def run(self) -> Run:
        """Returns the run that the call names."""
        return self.run_of(self.text("run_id", "run_uuid"))

    def run_of(self, run: str) -> Run:
        """Returns a run. Raises MlflowRefusal."""
        try:
            return self.store.run(run)
        except NotFoundError:
            raise missing(f"Run with id={run} not found") from None

    @property
    def owner(self) -> JsonObject:
        """What the body of a new document has of its maker."""
        return {OWNER: self.scope.mark} if self.scope and self.scope.mark else {}

    def own_run(self) -> Run:
        """Returns the run that the call deletes or restores."""
        run = self.run()
        if self.scope:
            self.scope.require_run(run)
        return run

    def active_run(self) -> Run:
        """Returns the run that the call writes to."""
        run = self.own_run()
        if run.deleted_ms is not None:
            raise invalid(f"The run {run.id} must be in the 'active' state. Current state is deleted.")
        return run


def whole(value: object, name: str) -> int:
    """Returns a value as a whole number of 64 bits. Raises MlflowRefusal."""
    if isinstance(value, int | float | str) and not isinstance(value, bool):
        try:
            if abs(number := int(value)) <= _MAX_INT:
                return number
        except (ValueError, OverflowError):
            pass
    raise invalid(f"Invalid value {value!r} for parameter '{name}': expected a whole number."[:300])


def pairs(objects: Iterable[JsonObject]) -> dict[str, str]:
    """Returns objects with a key and a value as a table. Raises MlflowRefusal."""
    table: dict[str, str] = {}
    for one in objects:
        key, value = one.get("key"), one.get("value")
        if not isinstance(key, str):
            raise invalid("Missing value for required parameter 'key'.")
        table[key] = "" if value is None else str(value)
    return table


def listed(table: Mapping[str, Any]) -> list[JsonObject]:
    """Returns a table as a list of objects with a key and a value."""
    return [{"key": key, "value": value} for key, value in sorted(table.items())]


def page_of(offset_token: str) -> int:
    """Returns the place at which a page begins. Raises MlflowRefusal."""
    if not offset_token:
        return 0
    if not offset_token.isdecimal() or not offset_token.isascii() or len(offset_token) > 18:
        raise invalid(f"Invalid page token {offset_token[:80]!r}.")
    return int(offset_token)


def paged(name: str, found: list[Any], call: Call, limit: int) -> JsonObject:
    """Returns one page of a list under its name, with the token of the next."""
    start = page_of(call.text_or("page_token"))
    page: JsonObject = {name: found[start : start + limit]}
    if start + limit < len(found):
        page["next_page_token"] = str(start + limit)
    return page

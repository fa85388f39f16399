"""Makes the arguments of `run` of a request, as Azure's server does, for each of the three forms of a script."""

from __future__ import annotations

import inspect
import json
from collections.abc import Sequence
from typing import Any, cast

from drumbeat.scoring.messages import ScoringRequest


class InputError(Exception):
    """A request that `run` can't get; its answer."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status, self.message = status, message


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def query_values(request: ScoringRequest) -> dict[str, Any]:
    """The parameters of a GET: each parsed as JSON if it is that, repeated ones as a list."""
    values: dict[str, list[Any]] = {}
    for name, text in request.parameters:
        values.setdefault(name, []).append(_parsed(text))
    return {name: parts[0] if len(parts) == 1 else parts for name, parts in values.items()}


def text_input(request: ScoringRequest) -> str:
    """The input of a plain `run(text)`. Raises InputError."""
    if request.method == "GET":
        return json.dumps(query_values(request))
    if request.method != "POST":
        raise InputError(405, "Method not allowed")
    try:
        return str(request.body, "utf-8")
    except UnicodeDecodeError as error:
        raise InputError(400, f"Input cannot be decoded as UTF-8: {error}") from None


def named_inputs(request: ScoringRequest, parameters: Sequence[inspect.Parameter]) -> dict[str, Any]:
    """The arguments of a `run` with `@input_schema`. Raises InputError."""
    if request.method == "GET":
        return _extracted(query_values(request), parameters)
    if request.method != "POST":
        raise InputError(405, "Method not allowed")
    return _extracted(_json_object(request), parameters)


def _json_object(request: ScoringRequest) -> dict[str, Any]:
    if not request.is_json:
        raise InputError(415, "Expects Content-Type to be application/json")
    try:
        value = json.loads(request.body)
    except UnicodeDecodeError as error:
        raise InputError(400, f"POST body could not be decoded as JSON: {error}") from None
    except ValueError as error:
        if request.body:
            raise InputError(400, f"POST body could not be decoded as JSON: {error}") from None
        raise InputError(400, "POST body is empty. Expecting a JSON dictionary.") from None
    if not isinstance(value, dict):
        raise InputError(400, "POST body should be a JSON dictionary.")
    return cast("dict[str, Any]", value)


def _extracted(values: dict[str, Any], parameters: Sequence[inspect.Parameter]) -> dict[str, Any]:
    arguments: dict[str, Any] = {}
    for parameter in parameters:
        value = values.get(parameter.name, parameter.default)
        if value is inspect.Parameter.empty:
            raise InputError(400, f"A value is not provided for the {parameter.name!r} parameter.")
        arguments[parameter.name] = value
    return arguments

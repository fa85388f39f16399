"""`/swagger.json`: the user's own file, else a description of `run` by its schema decorators."""

from __future__ import annotations

import importlib
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

_ALIASES = {"2": "2", "2.0": "2", "3": "3", "3.0": "3", "3.1": "3.1"}
_EMPTY: dict[str, Any] = {"type": "object", "example": {}}
_ERROR = {"type": "object", "properties": {"message": {"type": "string"}}}


class Swagger:
    """The descriptions of one script by version."""

    def __init__(self, app_root: str, run: Callable[..., Any]) -> None:
        self._root, self._run = Path(app_root), run
        self._versions = _supported_versions(run)

    def document(self, version: str) -> Any:
        """The description; None = there is none of this version."""
        kind = _ALIASES.get(version)
        if kind is None or not ({kind, f"{kind}.0"} & self._versions):
            return None
        for name in ("swagger.json", "swagger2.json") if kind == "2" else (f"swagger{kind}.json",):
            try:
                return json.loads((self._root / name).read_text(encoding="utf-8"))
            except FileNotFoundError:
                continue
        taken, given = _schemas(self._run)
        return _openapi_2(taken, given) if kind == "2" else _openapi_3(taken, given, kind)

    def refusal(self, version: str) -> str:
        """Why there is no description of a version."""
        supported = ", ".join(sorted({_ALIASES[one] for one in self._versions if one in _ALIASES}))
        what = "is not supported for the scoring script" if version in _ALIASES else "is not valid"
        listed = "Supported swagger versions" if version in _ALIASES else "Supported versions"
        return f"Swagger version [{version}] {what}. {listed}: [{supported}]."


def _utilities() -> Any:
    """inference-schema's functions, where the script uses them; else None."""
    return importlib.import_module("inference_schema.schema_util") if "inference_schema" in sys.modules else None


def _supported_versions(run: Callable[..., Any]) -> set[str]:
    utilities = _utilities()
    return set(utilities.get_supported_versions(run)) if utilities else set(_ALIASES)


def _schemas(run: Callable[..., Any]) -> tuple[Any, Any]:
    utilities = _utilities()
    if utilities is None or not utilities.is_schema_decorated(run):
        return _EMPTY, _EMPTY
    return utilities.get_input_schema(run), utilities.get_output_schema(run)


def _information() -> dict[str, str]:
    name = os.environ.get("SERVICE_NAME", "ML service")
    description = f"API specification for the Azure Machine Learning service {name}"
    return {"title": name, "description": description, "version": os.environ.get("SERVICE_VERSION", "1.0")}


def _paths(operation: Callable[[str, Any], dict[str, Any]], taken: dict[str, Any]) -> dict[str, Any]:
    prefix = os.environ.get("SERVICE_PATH_PREFIX", "").strip("/")
    begin = f"/{prefix}" if prefix else ""
    text = {"type": "string"}
    return {
        f"{begin}/": {"get": {"operationId": "ServiceHealthCheck", **operation("The server runs.", text)}},
        f"{begin}/score": {
            "post": {
                "operationId": "RunMLService", "security": [{"Bearer": []}], **taken, **operation("The result.", None),
            }
        },
        f"{begin}/swagger.json": {"get": {"operationId": "GetSwaggerSpec", **operation("This description.", text)}},
    }  # fmt: skip


def _openapi_2(taken: Any, given: Any) -> dict[str, Any]:
    def operation(text: str, schema: Any) -> dict[str, Any]:
        whole = schema or {"$ref": "#/definitions/ServiceOutput"}
        wrong = {"description": "The request failed.", "schema": {"$ref": "#/definitions/ErrorResponse"}}
        return {"responses": {"200": {"description": text, "schema": whole}, "default": wrong}}

    body = {"name": "serviceInputPayload", "in": "body", "schema": {"$ref": "#/definitions/ServiceInput"}}
    return {
        "swagger": "2.0", "info": _information(), "schemes": ["https"], "consumes": ["application/json"],
        "produces": ["application/json"],
        "securityDefinitions": {"Bearer": {"type": "apiKey", "name": "Authorization", "in": "header"}},
        "paths": _paths(operation, {"parameters": [body]}),
        "definitions": {"ServiceInput": taken, "ServiceOutput": given, "ErrorResponse": _ERROR},
    }  # fmt: skip


def _openapi_3(taken: Any, given: Any, version: str) -> dict[str, Any]:
    def content(schema: Any) -> dict[str, Any]:
        return {"application/json": {"schema": schema}}

    def operation(text: str, schema: Any) -> dict[str, Any]:
        whole = schema or {"$ref": "#/components/schemas/ServiceOutput"}
        wrong = {
            "description": "The request failed.",
            "content": content({"$ref": "#/components/schemas/ErrorResponse"}),
        }
        return {"responses": {"200": {"description": text, "content": content(whole)}, "default": wrong}}

    body = {"requestBody": {"content": content({"$ref": "#/components/schemas/ServiceInput"})}}
    return {
        "openapi": "3.1.0" if version == "3.1" else "3.0.3", "info": _information(), "paths": _paths(operation, body),
        "components": {
            "securitySchemes": {"Bearer": {"type": "http", "scheme": "bearer"}},
            "schemas": {"ServiceInput": taken, "ServiceOutput": given, "ErrorResponse": _ERROR},
        },
    }  # fmt: skip

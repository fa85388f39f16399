"""The API's description (OpenAPI): what FastAPI knows of the routes, and what all of them have in common.

FastAPI would build a model of an error for each status of each route, and all routes again for an app that includes
their routers. Both together take longer than everything else that a server does at its start.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from fastapi import FastAPI
from fastapi.routing import APIRoute, APIRouter
from pydantic import TypeAdapter

from drumbeat.model.api.server import ErrorView

_ERROR = "#/components/schemas/ErrorView"


def add_routes(app: FastAPI, router: APIRouter) -> None:
    """Adds a router's own routes to the app; each is called by its name in the description."""
    for route in router.routes:
        if isinstance(route, APIRoute):
            route.operation_id = route.operation_id or route.name
        app.router.routes.append(route)


def describe(app: FastAPI) -> None:
    """Has the app's description name the token that each route wants, and the error that each may answer."""
    of_routes: Callable[[], dict[str, Any]] = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            _complete(of_routes())
        return app.openapi_schema or {}

    app.openapi = openapi  # type: ignore[method-assign] # FastAPI's own way of changing it


def _complete(description: dict[str, Any]) -> None:
    content = {"application/json": {"schema": {"$ref": _ERROR}}}
    for operation in _operations(description):
        for response in operation["responses"].values():
            _name(response.get("content", {}), f"Response {operation['operationId'].replace('_', ' ').title()}")
        operation["security"] = [{"HTTPBearer": []}]
        operation["responses"] |= {
            "422": {"description": "Unprocessable Entity", "content": content},
            "default": {"description": "What is wrong.", "content": content},
        }
    components = description["components"]
    components["securitySchemes"] = {"HTTPBearer": {"type": "http", "scheme": "bearer"}}
    schemas = components["schemas"]
    for name in ("HTTPValidationError", "ValidationError"):  # The server answers those as its own error.
        schemas.pop(name, None)
    error = TypeAdapter(ErrorView).json_schema(mode="serialization", ref_template="#/components/schemas/{model}")
    schemas |= error.pop("$defs", {}) | {"ErrorView": error}


def _name(content: dict[str, Any], title: str) -> None:
    """Names a response that has no model of its own after its operation, not after its path."""
    for one in content.values():
        if one.get("schema", {}).get("title", "").startswith("Response "):
            one["schema"]["title"] = title


def _operations(description: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for methods in description["paths"].values():
        yield from methods.values()

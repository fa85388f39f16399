"""The API's description (OpenAPI): FastAPI's, completed with what all routes have in common.

FastAPI would build an error model for each status of each route, and build all routes again for an app that includes
their routers. Together this would take longer than the rest of a server's start.
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
    """Adds a router's routes to the app. In the description each has its own name."""
    for route in router.routes:
        if isinstance(route, APIRoute):
            route.operation_id = route.operation_id or route.name
        app.router.routes.append(route)


def describe(app: FastAPI) -> None:
    """Adds the token and the error of every route to the app's description."""
    of_routes: Callable[[], dict[str, Any]] = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            _complete(of_routes())
        return app.openapi_schema or {}

    app.openapi = openapi  # type: ignore[method-assign] # This is FastAPI's way to change it.


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
    for name in ("HTTPValidationError", "ValidationError"):  # The server answers these with its own error.
        schemas.pop(name, None)
    error = TypeAdapter(ErrorView).json_schema(mode="serialization", ref_template="#/components/schemas/{model}")
    schemas |= error.pop("$defs", {}) | {"ErrorView": error}


def _name(content: dict[str, Any], title: str) -> None:
    """Names a response without a model after its operation, not after its path."""
    for one in content.values():
        if one.get("schema", {}).get("title", "").startswith("Response "):
            one["schema"]["title"] = title


def _operations(description: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for methods in description["paths"].values():
        yield from methods.values()

"""Routers with lazy routes, whose models are built at the first request.

FastAPI builds validators and serializers when a route is defined. For all routes together that is more than half of a
server's start-up time, and a job needs only ten of them.
"""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeVar

from fastapi.routing import APIRoute, APIRouter
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import compile_path, get_name

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

DirectAnswer = Callable[[Request], Awaitable[Response]]
Endpoint = TypeVar("Endpoint", bound=Callable[..., Any])

_lock = threading.RLock()


def new_router(prefix: str = "", *, tags: list[str | Enum] | None = None, include_in_schema: bool = True) -> APIRouter:
    """Returns a router with lazy routes."""
    return APIRouter(prefix=prefix, tags=tags, include_in_schema=include_in_schema, route_class=LateRoute)


def answered_by(direct: DirectAnswer) -> Callable[[Endpoint], Endpoint]:
    """Has a function answer an endpoint's requests, which FastAPI then only describes.

    Finding an endpoint's arguments by its signature takes FastAPI as long as all else of a short request.
    """

    def mark(endpoint: Endpoint) -> Endpoint:
        endpoint.direct = direct  # type: ignore[attr-defined]
        return endpoint

    return mark


class LateRoute(APIRoute):
    """A route with path, methods and name; access to any other attribute completes it."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **settings: Any) -> None:
        self.path, self.endpoint, self.operation_id = path, endpoint, settings["operation_id"]
        self.path_regex, self.path_format, self.param_convertors = compile_path(path)
        self.name = settings["name"] or get_name(endpoint)
        self.methods = {method.upper() for method in settings["methods"]}
        self.include_in_schema = settings["include_in_schema"]
        self.direct: DirectAnswer | None = getattr(endpoint, "direct", None)
        self._settings: dict[str, Any] | None = settings

    @property
    def is_complete(self) -> bool:
        """Whether its models have been built."""
        return self._settings is None

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request."""
        if self.direct and scope["method"] in self.methods:
            response = await self.direct(Request(scope, receive))
            await response(scope, receive, send)
        else:
            await super().handle(scope, receive, send)

    def __getattr__(self, name: str) -> Any:
        # Python calls this for missing attributes, which only the complete route has.
        with _lock:
            if not name.startswith("__") and name != "_settings" and self._settings is not None:
                operation_id = self.operation_id
                try:
                    super().__init__(self.path, self.endpoint, **self._settings)
                finally:
                    self.operation_id = operation_id
                self._settings = None
            if name in self.__dict__:  # Another thread may have completed it meanwhile.
                return self.__dict__[name]
        raise AttributeError(f"{type(self).__name__} has no {name!r}")

"""Errors as HTTP responses: a table from error classes to statuses, and one form of body."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING

from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse

from drumbeat.model.errors import (
    AwayError,
    ConflictError,
    DrumbeatError,
    EngineError,
    ForbiddenError,
    NotFoundError,
    Problem,
    RefusedError,
    SpecError,
    StaleError,
    StorageError,
    UnauthorizedError,
    UnreachableError,
    VersionError,
)

if TYPE_CHECKING:
    from fastapi import FastAPI
    from starlette.requests import Request

STATUSES: dict[type[DrumbeatError], int] = {
    SpecError: 422,
    RefusedError: 422,
    NotFoundError: 404,
    ConflictError: 409,
    StaleError: 410,
    UnauthorizedError: 401,
    ForbiddenError: 403,
    UnreachableError: 503,
    VersionError: 426,
    EngineError: 502,
    AwayError: 503,
    StorageError: 507,
    DrumbeatError: 500,
}
"""The status of error classes; other classes have that of their nearest base."""

log = logging.getLogger("drumbeat.server")


def http_status(error: DrumbeatError) -> int:
    """Returns the HTTP status of an error."""
    return next(STATUSES[cls] for cls in type(error).__mro__ if cls in STATUSES)


def response(error: DrumbeatError, status: int | None = None, headers: Mapping[str, str] | None = None) -> JSONResponse:
    """Returns the response for an error. Its code is in a header, too, because responses to HEAD have no body."""
    given = {**(headers or {}), "Drumbeat-Error": error.code}
    if isinstance(error, UnauthorizedError):
        given["WWW-Authenticate"] = "Bearer"
    return JSONResponse(error.as_dict(), status or http_status(error), headers=given)


def install(app: FastAPI) -> None:
    """Installs handlers that answer every failure in this form."""
    app.add_exception_handler(DrumbeatError, _drumbeat)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(ClientDisconnect, _gone)
    app.add_exception_handler(Exception, _bug)


async def _drumbeat(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, DrumbeatError)  # noqa: S101 - what it was registered for
    if http_status(error) >= 500:
        log.log(logging.WARNING if isinstance(error, UnreachableError) else logging.ERROR, "%s", error)
    return response(error)


async def _invalid(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)  # noqa: S101 - what it was registered for
    problems = tuple(Problem(str(one["msg"]), ".".join(map(str, one["loc"]))) for one in error.errors())
    first = problems[0]
    what = f"the request can't be read: {first.what[:1].lower()}{first.what[1:]}"
    return response(RefusedError(what, where=first.where, fix="See /api/v1/openapi.json.", fields=problems))


async def _http(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)  # noqa: S101 - what it was registered for
    return response(_named(error, request), error.status_code, error.headers)


def _named(error: HTTPException, request: Request) -> DrumbeatError:
    """Translates the framework's own errors."""
    where = f"{request.method} {request.url.path[:200]}"
    match error.status_code:
        case 404:
            return NotFoundError("there is nothing at this address", where=where, fix="See /api/v1/openapi.json.")
        case 405:
            allowed = (error.headers or {}).get("Allow", "")
            return RefusedError("this address doesn't support that method", where=where, fix=f"It supports {allowed}.")
        case 408 | 503:
            return UnreachableError(str(error.detail), where=where, fix="Send it again.")
        case _:
            return RefusedError(str(error.detail), where=where)


async def _gone(request: Request, _error: Exception) -> JSONResponse:
    """Answers a client that disconnected during its body, which isn't an internal error."""
    return response(RefusedError("the body ended early", where=f"{request.method} {request.url.path[:200]}"), 400)


async def _bug(request: Request, error: Exception) -> JSONResponse:
    log.error("%s %s failed", request.method, request.url.path, exc_info=error)
    where = f"{request.method} {request.url.path[:200]}"
    what = f"internal error of the server ({type(error).__name__})"
    return response(DrumbeatError(what, where=where, fix="The traceback is in server.log in the server's home folder."))

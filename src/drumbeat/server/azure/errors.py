"""Errors in the form of Azure's API, and in that of its stores."""

from __future__ import annotations

import logging
from xml.sax.saxutils import escape

from starlette.responses import JSONResponse, Response

from drumbeat.model.errors import (
    AwayError,
    ConflictError,
    DrumbeatError,
    ForbiddenError,
    NotFoundError,
    RefusedError,
    SpecError,
    UnauthorizedError,
    UnreachableError,
)
from drumbeat.server import errors

log = logging.getLogger("drumbeat.server")

_CODES: dict[type[DrumbeatError], tuple[int, str]] = {
    NotFoundError: (404, "ResourceNotFound"),
    ConflictError: (409, "Conflict"),
    UnauthorizedError: (401, "AuthenticationFailed"),
    ForbiddenError: (403, "AuthorizationFailed"),
    SpecError: (400, "UserError"),
    RefusedError: (400, "UserError"),
    AwayError: (503, "ServiceUnavailable"),
    UnreachableError: (503, "ServiceUnavailable"),
}


class BlobError(Exception):
    """A refusal in the form of Azure's stores. code: theirs, which clients act on."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status, self.code, self.message = status, code, message


def status_and_code(error: DrumbeatError) -> tuple[int, str]:
    """Returns the HTTP status of an error, and its code in Azure's API.

    Clients send a request again for statuses from 500; an error that doesn't pass is told as a refusal.
    """
    row = next((_CODES[cls] for cls in type(error).__mro__ if cls in _CODES), None)
    if row:
        return row
    status = errors.http_status(error)
    return (400 if status == 502 else status), "UserError" if status == 502 else "InternalError"


def response(error: DrumbeatError, headers: dict[str, str] | None = None) -> JSONResponse:
    """Returns the response of the API."""
    status, code = status_and_code(error)
    given = dict(headers or {})
    if isinstance(error, UnauthorizedError):
        given["WWW-Authenticate"] = "Bearer"
    return JSONResponse({"error": {"code": code, "message": str(error)}}, status, given)


def bug(error: Exception, where: str) -> DrumbeatError:
    """Returns the error for a defect of the server, which is logged."""
    log.error("%s failed", where, exc_info=error)
    what = f"internal error of the server ({type(error).__name__})"
    return DrumbeatError(what, where=where, fix="The traceback is in server.log in the server's home folder.")


def blob_response(error: BlobError, *, has_body: bool = True) -> Response:
    """Returns the response of a store."""
    text = (
        f'<?xml version="1.0" encoding="utf-8"?><Error><Code>{error.code}</Code>'
        f"<Message>{escape(error.message)}</Message></Error>"
    )
    headers = {"x-ms-error-code": error.code, "x-ms-version": "2021-12-02"}
    return Response(text if has_body else None, error.status, headers, media_type="application/xml")


def as_blob_error(error: DrumbeatError) -> BlobError:
    """Returns an error of the server as stores tell it."""
    status, _ = status_and_code(error)
    codes = {404: "BlobNotFound", 401: "AuthenticationFailed", 403: "AuthorizationFailure", 409: "BlobAlreadyExists"}
    code = codes.get(status, "InvalidInput" if status < 500 else "InternalError")
    return BlobError(status, code, str(error))

"""The exceptions that scripts for Azure's SDK catch: drumbeat's errors are raised as these, too.

Where azure-core is installed they are also its exceptions, since such scripts import `azure.core.exceptions` unchanged.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Generator
from contextlib import contextmanager
from importlib import import_module
from typing import Any, ParamSpec, TypeVar, cast

from drumbeat.model.errors import (
    ConflictError,
    DrumbeatError,
    ForbiddenError,
    NotFoundError,
    RefusedError,
    SpecError,
    UnauthorizedError,
    UnreachableError,
)

P = ParamSpec("P")
R = TypeVar("R")


class MlException(Exception):
    """Any error of Azure's SDK. Its further keywords, such as `target`, are attributes."""

    def __init__(self, message: str = "", no_personal_data_message: str = "", *args: Any, **keywords: Any) -> None:
        super().__init__(message, *args)
        self.message, self.no_personal_data_message = message, no_personal_data_message
        self.__dict__.update(keywords)


class ValidationException(MlException):
    """An object or a file is invalid."""


class JobException(MlException):
    """A job has failed, or isn't in a state for what was asked."""


class ScheduleException(MlException):
    """A schedule can't be made or changed."""


class UserErrorException(MlException):
    """What was asked can't be done."""


class AssetException(MlException):
    """An asset can't be made or read."""


class AssetPathException(MlException):
    """The path of an asset can't be used."""


class ComponentException(MlException):
    """A component can't be made or read."""


class ModelException(MlException):
    """A model can't be made or read."""


class UnsupportedOperationError(MlException):
    """drumbeat doesn't have it."""


class EmptyDirectoryError(MlException):
    """A folder to upload has no files."""


_KINDS: tuple[tuple[type[DrumbeatError], type[MlException], str, int], ...] = (
    (SpecError, ValidationException, "", 0),
    (NotFoundError, UserErrorException, "ResourceNotFoundError", 404),
    (ConflictError, UserErrorException, "ResourceExistsError", 409),
    (UnauthorizedError, UserErrorException, "ClientAuthenticationError", 401),
    (ForbiddenError, UserErrorException, "HttpResponseError", 403),
    (UnreachableError, MlException, "ServiceRequestError", 0),
    (RefusedError, UserErrorException, "HttpResponseError", 400),
    (DrumbeatError, MlException, "HttpResponseError", 500),
)
"""For each error of drumbeat its exception here, azure-core's, and the HTTP status that goes with that; 0 = none."""


@contextmanager
def azure_errors() -> Generator[None]:
    """Raises an error of drumbeat inside as one that is Azure's, too."""
    try:
        yield
    except MlException:
        raise
    except DrumbeatError as error:
        raise as_azure_error(error) from error.__cause__


def with_azure_errors(function: Callable[P, R]) -> Callable[P, R]:
    """Wraps a function so that its errors are Azure's, too."""

    @functools.wraps(function)
    def call(*args: P.args, **keywords: P.kwargs) -> R:
        with azure_errors():
            return function(*args, **keywords)

    return call


def as_azure_error(error: DrumbeatError) -> DrumbeatError:
    """Returns the same error as an instance of its own class, of one of this module, and of azure-core's."""
    _, own, name, status = next(kind for kind in _KINDS if isinstance(error, kind[0]))
    made = _class_of(type(error), own, name)
    copy = cast("Any", made.__new__(made, *error.args))
    copy.__dict__.update(error.__dict__)
    copy.message, copy.no_personal_data_message = str(error), error.code
    copy.status_code, copy.reason, copy.response, copy.error = status or None, error.code, None, None
    copy.inner_exception = copy.continuation_token = copy.model = None
    return copy


@functools.cache
def _class_of(kind: type[DrumbeatError], own: type[MlException], name: str) -> type[DrumbeatError]:
    bases: list[type[Exception]] = [kind, own]
    if foreign := _of_azure_core(name):
        bases.append(foreign)
    return cast("type[DrumbeatError]", type(kind.__name__, tuple(bases), {"__doc__": kind.__doc__}))


def _of_azure_core(name: str) -> type[Exception] | None:
    """Returns azure-core's exception of this name; None where the package isn't installed."""
    try:
        return getattr(import_module("azure.core.exceptions"), name) if name else None
    except ImportError:
        return None

"""Checks what a step gives to the inputs of its component: parameters by type and limits, and data."""

from __future__ import annotations

from typing import Any

from drumbeat.jobfile.data.inputs_outputs import Input
from drumbeat.jobfile.data.parameter_values import Scalar, passed, typed
from drumbeat.jobfile.reading.error_messages import nearest, shown, words
from drumbeat.jobfile.reading.model import set_keys
from drumbeat.model.errors import SpecError

ARTICLES = {"integer": "an integer", "number": "a number", "boolean": "`true` or `false`", "string": "a string"}


def parameter(port: Input, value: Scalar, where: str) -> Scalar:
    """Returns a value as the parameter that takes it passes it on. Raises SpecError, which names `where`.

    A string takes a boolean as its word: `True` or `False`. A number that was typed in another form keeps that form.
    """
    own = typed(port.type, value)
    if own is None:
        raise SpecError(f"expected {ARTICLES[port.type]}, got {shown(value)}", where=where)
    if port.enum is not None:
        allowed = [typed(port.type, one) for one in port.enum]
        if own not in allowed:
            names = [str(one) for one in allowed]
            what = f"{shown(str(own))} is none of {words(names, 'or')}"
            raise SpecError(what, where=where, fix=nearest(str(own), names))
    if isinstance(own, int | float) and not isinstance(own, bool):
        _check_limits(port, own, where)
    return passed(port.type, value)


def _check_limits(port: Input, value: float, where: str) -> None:
    if port.min is not None and value < port.min:
        raise SpecError(f"{value} is below the minimum, {port.min}", where=where)
    if port.max is not None and value > port.max:
        raise SpecError(f"{value} is above the maximum, {port.max}", where=where)


def data(port: Input, value: Any, where: str) -> Input:
    """Returns data as the input that takes it has it: of the port's type, in the value's mode if it names one.

    A file for a declared folder stays a file, and a folder for a declared file a folder, as with Azure.
    value: an `Input`, or a path. Raises SpecError.
    """
    if isinstance(value, Input):
        if value.is_parameter:
            raise SpecError(f"expected data, got a parameter of type `{value.type}`", where=where)
        given = set_keys(value)
    elif isinstance(value, str):
        given = {"path": value}
    else:
        raise SpecError(f"expected data, got {shown(value)}", where=where, fix="Write `path:` with where it is.")
    declared = {key: getattr(port, key) for key in ("type", "mode") if key in port.model_fields_set}
    kind = {} if has_other_form(port, value) else {key: declared[key] for key in ("type",) if key in declared}
    return Input.made({**declared, **given, **kind})


def has_other_form(port: Input, value: Any) -> bool:
    """Whether an input is declared as a folder and is given a file, or the reverse."""
    if not isinstance(value, Input):
        return False
    return all("type" in one.model_fields_set for one in (port, value)) and {port.type, value.type} == {
        "uri_file",
        "uri_folder",
    }

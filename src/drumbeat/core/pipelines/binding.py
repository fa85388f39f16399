"""The inputs of a step or of a nested pipeline: `${{ }}` resolved, defaults filled in, types and limits checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from drumbeat.core.pipelines.graph import Bound, Data, StepOutput, Value
from drumbeat.jobfile.data.inputs_outputs import Input
from drumbeat.jobfile.data.parameter_values import Scalar
from drumbeat.jobfile.pipelines.step_inputs import data, parameter
from drumbeat.jobfile.reading.error_messages import shown
from drumbeat.jobfile.reading.expressions import Malformed, Reference, parts
from drumbeat.model.errors import SpecError

Resolve = Callable[[Reference], Value]
"""Returns what a reference points at, in the pipeline in which it is written. Raises SpecError without a place."""


def bind_ports(
    ports: Mapping[str, Input], given: Mapping[str, object], resolve: Resolve, step: str
) -> dict[str, Bound]:
    """Binds each input that a component declares. given: the step's entries. step: its path, for messages."""
    return {name: bind(port, given.get(name), resolve, step, name) for name, port in ports.items()}


def bind_inputs(given: Mapping[str, object], resolve: Resolve, step: str) -> dict[str, Bound]:
    """Binds the inputs of a step that declares none, each to its given value."""
    return {name: bind(None, value, resolve, step, name) for name, value in given.items()}


def bind(port: Input | None, given: object, resolve: Resolve, step: str, name: str) -> Bound:
    """Binds one input. port: how it is declared, None = it isn't. given: None = nothing."""
    where = f"{step}.inputs.{name}" if step else f"inputs.{name}"
    bound = _evaluated(given, resolve, step, name, where)
    if port is None:
        return bound
    value = bound.value
    if value is None:
        value = _default(port, step, name, where)
    if isinstance(value, Data):
        kept = data(port, value.value, where)
        return Bound(replace(value, value=kept), mode=bound.mode)
    if isinstance(value, StepOutput):
        if port.is_parameter:
            what = f"expected a value of type `{port.type}`, got output `{value.output}` of step `{value.step}`"
            raise SpecError(what, where=where, fix="Outputs of steps are data: declare it as `type: uri_folder`.")
        return Bound(value, port.type, bound.mode or port.mode or "")
    if value is None:
        return Bound(None)
    if port.is_parameter:
        return Bound(parameter(port, value, where))
    return Bound(Data(data(port, value, where), step, name))


def _default(port: Input, step: str, name: str, where: str) -> Value:
    """Returns the value of an input without an entry: its `default`, or the data at its `path`; None = it is absent."""
    if port.default is not None:
        return port.default
    if port.path is not None:
        return Data(port, step, name, is_default=True)
    if port.optional:
        return None
    raise SpecError("it has no value, and isn't optional", where=where, fix=f"Add `{name}:` to the inputs.")


def _evaluated(given: object, resolve: Resolve, step: str, name: str, where: str) -> Bound:
    """Evaluates a step's entry for an input, before its declaration is applied."""
    if not isinstance(given, Input):
        return Bound(text_value(given, resolve, where) if isinstance(given, str) else _literal(given))
    if given.is_parameter or given.is_absent:
        return Bound(given.default)
    if given.path is None:
        raise SpecError("it names no data", where=where, fix="Write `path:` with where it is.")
    value, mode = text_value(given.path, resolve, where), given.mode or ""
    if value is None:
        return Bound(None)
    if isinstance(value, Data):
        keys = {key: getattr(given, key) for key in ("type", "mode") if key in given.model_fields_set}
        kept = data(Input.made(keys), value.value, where)
        return Bound(replace(value, value=kept.model_copy(update={"mode": given.mode or kept.mode})), mode=mode)
    if isinstance(value, StepOutput):
        return Bound(value, given.type if "type" in given.model_fields_set else "", mode)
    if isinstance(value, str):
        return Bound(Data(given.model_copy(update={"path": value}), step, name), mode=mode)
    raise SpecError(f"expected data, got {shown(value)}", where=where, fix="Name data by it, or leave out `path:`.")


def _literal(given: object) -> Scalar | None:
    return given if isinstance(given, bool | int | float) else None


def text_value(text: str, resolve: Resolve, where: str) -> Value:
    """Evaluates a text with expressions: to a value if it is one expression, a place in an output, else a text."""
    try:
        pieces = list(parts(text))
        if not any(isinstance(piece, Reference) for piece in pieces):
            return text
        values = [resolve(piece) if isinstance(piece, Reference) else piece for piece in pieces]
    except Malformed as error:
        raise SpecError(error.what, where=where) from None
    except SpecError as error:
        raise SpecError(error.what, where=error.where or where, fix=error.fix) from None
    if len(values) == 1:
        return values[0]
    first = values[0]
    if isinstance(first, StepOutput) and len(values) == 2 and isinstance(pieces[1], str) and pieces[1].startswith("/"):
        return replace(first, path="/".join(part for part in (first.path, pieces[1].strip("/")) if part))
    if any(isinstance(value, Data | StepOutput) for value in values):
        fix = "Give the data itself, and let the script name the part of it."
        raise SpecError(f"`{text}` mixes data and text", where=where, fix=fix)
    return "".join("" if value is None else str(value) for value in values)

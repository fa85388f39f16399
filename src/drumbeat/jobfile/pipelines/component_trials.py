"""Sweeps whose trial is a component: its command, inputs and outputs become the sweep's own."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, cast

from drumbeat.jobfile.data.inputs_outputs import Input
from drumbeat.jobfile.pipelines.component import CommandComponent
from drumbeat.jobfile.pipelines.step_inputs import data, parameter
from drumbeat.jobfile.reading.error_messages import either
from drumbeat.jobfile.reading.expressions import Reference, render
from drumbeat.jobfile.reading.writer import to_dict
from drumbeat.model.errors import SpecError

OF_THE_TRIAL = ("code", "environment", "environment_variables", "distribution", "resources")


def trial_keys(component: CommandComponent, drawn: Collection[str], absent: Collection[str] = ()) -> dict[str, Any]:
    """Returns the `trial` that a component is, as a sweep file has it.

    drawn: the inputs that come from the search space. absent: optional inputs without a value.
    """
    written = to_dict(component)
    keys = {key: written[key] for key in OF_THE_TRIAL if key in written}
    return {"command": drawn_command(component.command, drawn, absent), **keys}


def drawn_command(command: str, drawn: Collection[str], absent: Collection[str] = ()) -> str:
    """Returns the command with `${{inputs.x}}` of a drawn `x` as `${{search_space.x}}`."""

    def resolve(reference: Reference) -> str | None:
        if reference.kind != "inputs":
            return reference.text
        if reference.name in drawn:
            return f"${{{{search_space.{reference.name}}}}}"
        return None if reference.name in absent else reference.text

    return render(command, resolve)


def with_component(document: Mapping[str, Any], component: CommandComponent) -> dict[str, Any]:
    """Returns a sweep's document with the component in place of its name. Raises SpecError."""
    space = cast("Mapping[str, Any]", document.get("search_space") or {})
    given = cast("Mapping[str, Any]", document.get("inputs") or {})
    for table, names in (("search_space", space), ("inputs", given)):
        for name in names:
            if name not in component.inputs:
                fix = either(name, component.inputs, "It takes")
                raise SpecError(f"the component has no input `{name}`", where=f"{table}.{name}", fix=fix)
    inputs = {name: _input(name, port, given.get(name)) for name, port in component.inputs.items() if name not in space}
    absent = [name for name, value in inputs.items() if value == _absent(component.inputs[name])]
    own = {name: to_dict(output) for name, output in component.outputs.items()}
    outputs = {**own, **cast("Mapping[str, Any]", document.get("outputs") or {})}
    trial = trial_keys(component, space, absent)
    return {**document, "trial": trial, "inputs": inputs, "outputs": outputs}


def _input(name: str, port: Input, given: object) -> Any:
    """An input of the sweep: what its file gives, or the default of the component."""
    where = f"inputs.{name}"
    value = Input.made(cast("Mapping[str, Any]", given)) if isinstance(given, dict) else given
    if isinstance(value, Input) and value.is_parameter:
        value = value.default
    if value is None:
        value = port.default if port.is_parameter else (port if port.path else None)
    if value is None and port.optional:
        return _absent(port)
    if value is None:
        raise SpecError("it has no value, and isn't optional", where=where, fix=f"Add `{name}:` to the inputs.")
    if not port.is_parameter:
        return to_dict(data(port, value, where))
    if isinstance(value, bool | int | float | str):
        return parameter(port, value, where)
    raise SpecError(f"expected a value of type `{port.type}`, got data", where=where)


def _absent(port: Input) -> dict[str, Any]:
    """An optional input without a value, as a job file writes it."""
    return {"type": port.type, "optional": True}

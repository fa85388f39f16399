"""Open pipelines, and bindings: values that exist only when the pipeline runs."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from drumbeat.jobfile.data.inputs_outputs import Input, Output
from drumbeat.jobfile.reading.error_messages import either
from drumbeat.jobfile.sweeping.search_space import Choice, RandInt, SearchFunction
from drumbeat.model.errors import SpecError
from drumbeat.model.folder_layout import ARTIFACTS

OPEN: ContextVar[list[Any] | None] = ContextVar("open_pipeline", default=None)
"""The steps of the pipeline whose function is running."""


@contextmanager
def open_pipeline() -> Generator[list[Any]]:
    """Collects the steps that are called inside."""
    steps: list[Any] = []
    token = OPEN.set(steps)
    try:
        yield steps
    finally:
        OPEN.reset(token)


@dataclass(frozen=True, eq=False)
class Binding:
    """A value that exists when the pipeline runs: an output of `owner`, or an input of the pipeline itself."""

    name: str
    owner: Any = None
    described: Any = None

    def text(self, names: Mapping[int, str]) -> str:
        """The expression that the file has for it; `names` has the step names by id()."""
        if self.owner is None:
            return f"${{{{parent.inputs.{self.name}}}}}"
        if id(self.owner) not in names:
            raise SpecError(f"the output `{self.name}` belongs to a step of another pipeline")
        return f"${{{{parent.jobs.{names[id(self.owner)]}.outputs.{self.name}}}}}"


class Outputs(dict[str, Any]):
    """A step's outputs: `step.outputs.model` is what another step takes as its input."""

    def __init__(self, owner: Any, values: Mapping[str, Any]) -> None:
        super().__init__(values)
        self._owner = owner

    def __getattr__(self, name: str) -> Binding:
        if name == ARTIFACTS and name not in self:  # The script's ./outputs need no declaration.
            return Binding(name, self._owner, Output())
        if name.startswith("__") or name not in self:
            raise AttributeError(f"there is no output {name!r}. {either(name, self, 'There are')}".strip())
        return Binding(name, self._owner, self[name])

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("_"):
            super().__setattr__(name, value)
        else:
            self[name] = value


def bound(values: Mapping[str, Any], described: Mapping[str, Any], names: Mapping[int, str]) -> dict[str, Any]:
    """Returns inputs as the entry of a step in a file; `described` has their declarations."""
    done: dict[str, Any] = {}
    for name, value in values.items():
        if not isinstance(value, Binding):
            done[name] = value
            continue
        text = value.text(names)
        declared = described.get(name)
        mode = declared.mode if isinstance(declared, Input) else None
        done[name] = Input(type=declared.type, mode=mode, path=text) if isinstance(declared, Input) and mode else text
    return done


def port(value: Any) -> Input:
    """Returns the declaration that fits a value: its type alone."""
    if isinstance(value, Binding):
        return port(value.described)
    if isinstance(value, Input):
        kept = {key: getattr(value, key) for key in ("mode", "optional") if key in value.model_fields_set}
        return Input.made({"type": value.type, **kept})
    if isinstance(value, Output):
        return Input(type=value.type)
    listed: list[Any] = [*value.values] if isinstance(value, Choice) else [value]
    kinds: set[type[Any]] = {type(each) for each in listed}
    if isinstance(value, SearchFunction) and not isinstance(value, Choice):
        return Input(type="integer" if isinstance(value, RandInt) else "number")
    if kinds == {bool}:
        return Input(type="boolean")
    if kinds <= {int, float}:
        return Input(type="integer" if kinds == {int} else "number")
    return Input(type="string")

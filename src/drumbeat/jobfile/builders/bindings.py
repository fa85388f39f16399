"""Open pipelines, and bindings: values that exist only when the pipeline runs."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, cast

from drumbeat.jobfile.data.inputs_outputs import Input, Output
from drumbeat.jobfile.reading.error_messages import either
from drumbeat.jobfile.reading.model import Model, set_keys
from drumbeat.jobfile.sweeping.search_space import Choice, RandInt, SearchFunction
from drumbeat.model.errors import SpecError
from drumbeat.model.folder_layout import ARTIFACTS

OF_AN_OUTPUT = ("type", "path", "mode", "name", "version", "description")

OF_A_PORT = ("mode", "optional", "default", "min", "max", "enum", "description")
"""The keys of an input that a component keeps; where the data is, is said by each use."""

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


class Binding:
    """A value that exists when the pipeline runs: an output of `owner`, or an input of the pipeline itself.

    Its other attributes are the keys of that output, and may be set: `step.outputs.model.mode = "upload"`.
    """

    __slots__ = ("described", "owner", "port_name")
    port_name: str
    owner: Any
    described: Any

    def __init__(self, port_name: str, owner: Any = None, described: Any = None) -> None:
        object.__setattr__(self, "port_name", port_name)
        object.__setattr__(self, "owner", owner)
        object.__setattr__(self, "described", described)

    def __getattr__(self, name: str) -> Any:
        if name in OF_AN_OUTPUT:
            given: Any = self.described
            return as_table(given).get(name) if isinstance(given, Model | Mapping) else None
        raise AttributeError(f"a step's output has no {name!r}. {either(name, OF_AN_OUTPUT, 'It has')}".strip())

    def __setattr__(self, name: str, value: Any) -> None:
        if self.owner is None or name not in OF_AN_OUTPUT:
            has = either(name, OF_AN_OUTPUT, "An output of a step has")
            raise AttributeError(f"{name!r} can't be set here. {has}".strip())
        self.owner.outputs.change(self.port_name, name, value)

    def text(self, names: Mapping[int, str]) -> str:
        """The expression that the file has for it; `names` has the step names by id()."""
        if self.owner is None:
            return f"${{{{parent.inputs.{self.port_name}}}}}"
        if id(self.owner) not in names:
            raise SpecError(f"the output `{self.port_name}` belongs to a step of another pipeline")
        return f"${{{{parent.jobs.{names[id(self.owner)]}.outputs.{self.port_name}}}}}"


class NamedValues(dict[str, Any]):
    """A table whose keys are attributes too: `job.inputs.lr = 0.1`, `job.settings.default_compute = "gpu"`."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name not in self:
            raise AttributeError(f"there is no {name!r}. {either(name, self, 'There are')}".strip())
        return self[name]

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("_"):
            super().__setattr__(name, value)
        else:
            self[name] = value


class ChangeableDraft:
    """A draft of a job or a step. Its tables have attributes: `job.limits.timeout = 60`."""

    __slots__ = ()

    def __setattr__(self, key: str, value: Any) -> None:
        is_table = type(value) is dict
        object.__setattr__(self, key, NamedValues(cast("dict[str, Any]", value)) if is_table else value)


class Inputs(NamedValues):
    """A step's or a job's inputs; the mode of one may be set: `step.inputs.data.mode = "download"`."""

    def __init__(self, values: Mapping[str, Any] | None = None) -> None:
        super().__init__(values or {})
        self._modes = dict[str, str]()

    @property
    def modes(self) -> dict[str, str]:
        """The modes of inputs that come from other steps, where they were set for this use."""
        return self._modes

    def __getattr__(self, name: str) -> Any:
        value = super().__getattr__(name)
        return InputHandle(self, name) if isinstance(value, Binding | Input) else value


class InputHandle:
    """One input that is data: reads as its declaration does, and setting a key changes it."""

    def __init__(self, inputs: Inputs, name: str) -> None:
        object.__setattr__(self, "_inputs", inputs)
        object.__setattr__(self, "_name", name)

    def __getattr__(self, key: str) -> Any:
        return getattr(self._inputs[self._name], key)

    def __setattr__(self, key: str, value: Any) -> None:
        given = self._inputs[self._name]
        if isinstance(given, Input):
            self._inputs[self._name] = Input.made({**set_keys(given), key: value})
        elif key == "mode":
            self._inputs.modes[self._name] = value
        else:
            raise AttributeError(f"only the mode of an input that comes from a step can be set, not {key!r}")


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
        return self[name]

    def __getitem__(self, name: str) -> Binding:
        return Binding(name, self._owner, super().__getitem__(name))

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("_"):
            super().__setattr__(name, value)
        else:
            self[name] = value

    def change(self, output: str, key: str, value: Any) -> None:
        """Sets one key of an output."""
        self[output] = {**as_table(self.get(output)), key: value}


def apart(value: Any) -> Any:
    """A copy of a table or a model, in which a change is no change of the original; other values unchanged."""
    if isinstance(value, Model):
        return value.model_copy()
    if isinstance(value, Mapping):
        return {key: apart(one) for key, one in cast("Mapping[str, Any]", value).items()}
    return value


def as_table(value: Any) -> dict[str, Any]:
    """A model or a dict as the keys that were set in it."""
    if value is None:
        return {}
    if isinstance(value, Mapping):
        return dict(cast("Mapping[str, Any]", value))
    return value.model_dump(exclude_unset=True)


def bound(values: Mapping[str, Any], described: Mapping[str, Any], names: Mapping[int, str]) -> dict[str, Any]:
    """Returns inputs as the entry of a step in a file; `described` has their declarations."""
    done: dict[str, Any] = {}
    for name, value in values.items():
        if not isinstance(value, Binding):
            done[name] = value
            continue
        text = value.text(names)
        declared = described.get(name)
        modes = values.modes if isinstance(values, Inputs) else {}
        mode = modes.get(name) or (declared.mode if isinstance(declared, Input) else None)
        kind = declared.type if isinstance(declared, Input) else "uri_folder"
        done[name] = Input.made({"type": kind, "mode": mode, "path": text}) if mode else text
    return done


def step_value(value: Any, names: Mapping[int, str]) -> Any:
    """Returns the value of a step's key as the file has it: an input of the pipeline is an expression."""
    return value.text(names) if isinstance(value, Binding) else named(value)


def named(value: Any) -> Any:
    """Returns the name of something registered, which has a `reference`; everything else unchanged."""
    return getattr(value, "reference", value) if not isinstance(value, Model) else value


def port(value: Any) -> Input:
    """Returns the declaration that fits a value: its type alone."""
    if isinstance(value, Binding):
        return port(value.described)
    if isinstance(value, Input):
        kept = {key: getattr(value, key) for key in OF_A_PORT if key in value.model_fields_set}
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

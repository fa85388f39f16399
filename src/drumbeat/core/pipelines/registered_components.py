"""Replaces the names of registered components in the documents of pipelines and sweeps with the components."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, cast

from drumbeat.jobfile.pipelines.component import CommandComponent
from drumbeat.jobfile.pipelines.component_file import RegisteredName, component_from, registered_name
from drumbeat.jobfile.pipelines.component_trials import with_component
from drumbeat.jobfile.pipelines.graph import StepCount
from drumbeat.model import wire
from drumbeat.model.api.requests import JobRequest, StepParts
from drumbeat.model.errors import RefusedError, SpecError

MAX_DEPTH = 20
"""Registered components that name one another, one inside the other."""

Table = dict[str, Any]


@dataclass(frozen=True)
class RegisteredComponent:
    """A version of a component. parts: what belongs to its steps, by their paths; to a command's own, under ""."""

    name: str
    version: str
    document: Table
    parts: Mapping[str, StepParts] = field(default_factory=dict[str, StepParts])


@dataclass(frozen=True)
class UsedComponent:
    """A step, or the trial of a sweep, is this version. role: which, as in `step train`."""

    name: str
    version: str
    role: str


@dataclass(frozen=True)
class Resolved:
    """A request without names of components. notes: sentences on the versions that were chosen."""

    request: JobRequest
    used: tuple[UsedComponent, ...] = ()
    notes: tuple[str, ...] = ()


Lookup = Callable[[RegisteredName, str], RegisteredComponent]
"""Returns the component of a name; the text: its place, for messages. Raises UnknownNameError."""


def resolve(request: JobRequest, lookup: Lookup) -> Resolved:
    """Returns the request with every component that its document names. Raises SpecError, UnknownNameError."""
    document = request.document
    if document.get("type") == "sweep":
        return _sweep(request, lookup)
    if document.get("type") != "pipeline":
        return Resolved(request)
    resolver = _Resolver(lookup)
    whole = resolver.pipeline(dict(document))
    own = resolver.parts.pop("", StepParts())
    inputs = {**own.inputs, **request.inputs}
    parts = {**{path: one for path, one in resolver.parts.items() if path not in request.parts}, **request.parts}
    for path in resolver.parts.keys() & request.parts.keys():
        parts[path] = merged(request.parts[path], resolver.parts[path], is_own=path in resolver.own_environments)
    made = replace(request, document=whole, inputs=inputs, parts=parts)
    return Resolved(made, tuple(resolver.used), tuple(resolver.notes))


def _sweep(request: JobRequest, lookup: Lookup) -> Resolved:
    trial = request.document.get("trial")
    name = registered_name(trial, "trial") if isinstance(trial, str) else None
    if name is None:
        return Resolved(request)
    kept = lookup(name, "trial")
    component = component_from(kept.document, f"component {kept.name}:{kept.version}")
    if not isinstance(component, CommandComponent):
        raise SpecError("a trial is a command", where="trial", fix="Name a component of type command.")
    own = kept.parts.get("", StepParts())
    document = with_component(request.document, component)
    given = cast("Table", request.document.get("inputs") or {})
    defaults = {name: place for name, place in own.inputs.items() if given.get(name) is None}
    inputs = {**defaults, **request.inputs}
    made = replace(request, document=document, code=own.code, inputs=inputs, environment=own.environment)
    used = UsedComponent(kept.name, kept.version, "trial")
    return Resolved(made, (used,), tuple(_note("trial", name, kept)))


def merged(of_step: StepParts, of_component: StepParts, *, is_own: bool) -> StepParts:
    """Returns the parts of a step whose component is registered. is_own: the step names an environment itself."""
    environment = of_step.environment if is_own else of_component.environment
    inputs = {**of_component.inputs, **of_step.inputs}
    return StepParts(of_step.code or of_component.code, inputs, environment)


def default_key(name: str) -> str:
    """Returns the key, in the parts of a step, of the data at an input's own `path`; no input is named so."""
    return f"{name}.default"


def _note(role: str, name: RegisteredName, kept: RegisteredComponent) -> Iterator[str]:
    if not name.version:
        yield f"{role}: azureml:{kept.name}@latest is version {kept.version} now"


class _Resolver:
    """One walk through a document."""

    def __init__(self, lookup: Lookup) -> None:
        self._lookup = lookup
        self._count = StepCount()
        self.parts: dict[str, StepParts] = {}
        self.own_environments: set[str] = set()
        self.used: list[UsedComponent] = []
        self.notes: list[str] = []

    def pipeline(self, table: Table) -> Table:
        """Returns the document of a whole pipeline."""
        if isinstance(table.get("component"), str | dict):
            return {**table, "component": self._component(table["component"], "", "component", 0)}
        return {**table, "jobs": self._jobs(table, "", 0)}

    def _jobs(self, table: Table, prefix: str, depth: int) -> Table:
        nodes = cast("Table", table.get("jobs") or {})
        return {name: self._node(node, f"{prefix}{name}", depth) for name, node in nodes.items()}

    def _node(self, node: Any, path: str, depth: int) -> Any:
        if not isinstance(node, dict):
            return node
        table = cast("Table", node)
        key = "trial" if table.get("type") == "sweep" else "component"
        if table.get("type") not in (None, "command", "parallel", "sweep", "pipeline") or key not in table:
            self._count.add(path)
            return table
        if table.get("environment") is not None:
            self.own_environments.add(path)
        component = self._component(table[key], path, key, depth)
        is_pipeline = isinstance(component, dict) and cast("Table", component).get("type") == "pipeline"
        if not is_pipeline:
            self._count.add(path)
        done: Table = {**table, key: component}
        return {**done, "type": "pipeline"} if is_pipeline else done

    def _component(self, given: Any, path: str, key: str, depth: int) -> Any:
        where = f"{path}.{key}" if path else key
        if isinstance(given, dict):
            inside = cast("Table", given)
        else:
            name = registered_name(str(given), where)
            if name is None:
                return given  # A file that was not sent: refused where the graph is made.
            inside = self._registered(name, path, where)
        if depth > MAX_DEPTH:
            raise RefusedError("components name one another in a circle", where=where)
        if inside.get("type") != "pipeline":
            return inside
        return {**inside, "jobs": self._jobs(inside, f"{path}/" if path else "", depth + 1)}

    def _registered(self, name: RegisteredName, path: str, where: str) -> Table:
        kept = self._lookup(name, where)
        role = f"step {path}" if path else "pipeline"
        self.used.append(UsedComponent(kept.name, kept.version, role))
        self.notes.extend(_note(role, name, kept))
        for below, kept_parts in kept.parts.items():
            parts = kept_parts if below else _with_defaults(kept_parts)
            whole = "/".join(part for part in (path, below) if part)
            earlier = self.parts.get(whole)
            self.parts[whole] = merged(earlier, parts, is_own=whole in self.own_environments) if earlier else parts
        return kept.document


def _with_defaults(of_component: StepParts) -> StepParts:
    """The parts of a component, whose inputs aren't what a step gives."""
    return replace(of_component, inputs={default_key(name): place for name, place in of_component.inputs.items()})


def parts_from(texts: Mapping[str, Any]) -> dict[str, StepParts]:
    """Returns the parts in a stored component."""
    return wire.from_wire(dict[str, StepParts], texts)


def snapshot_digests(parts: Mapping[str, StepParts]) -> set[str]:
    """Returns the snapshots that parts need: of code, of the folders of images, and of data."""
    digests: set[str] = set()
    for one in parts.values():
        digests |= {digest for digest in (one.code, one.environment.context) if digest}
        digests |= {uri.removeprefix("snapshot:") for uri in one.inputs.values() if uri.startswith("snapshot:")}
    return digests

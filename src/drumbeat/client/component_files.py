"""The components of a pipeline or a sweep: their files are read here and put into the document that is sent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

from drumbeat.client.environment_files import with_environments
from drumbeat.jobfile.data.paths import local_path
from drumbeat.jobfile.pipelines.component import CommandComponent
from drumbeat.jobfile.pipelines.component_file import (
    COMPONENT,
    component_from,
    component_path,
    load_component_text,
    registered_name,
)
from drumbeat.jobfile.pipelines.component_trials import with_component
from drumbeat.jobfile.pipelines.graph import StepCount
from drumbeat.jobfile.pipelines.step_types import is_other
from drumbeat.jobfile.reading.loader import load_text, read_text
from drumbeat.jobfile.reading.writer import to_dict
from drumbeat.model.errors import SpecError

MAX_DEPTH = 20
"""Component files that name one another, one inside the other."""

Table = dict[str, Any]


@dataclass(frozen=True)
class FileOrigin:
    """Where something is written. base: the folder that its paths count from. text: of the file, "" = none."""

    base: Path
    source: str
    text: str = ""
    keys: tuple[str, ...] = ()
    """The keys that lead to it in the file."""
    depth: int = 0
    """The number of files that lead to this one."""
    count: StepCount = field(default_factory=StepCount, compare=False)
    """The steps that were put into the document so far."""

    def at(self, *keys: str) -> FileOrigin:
        """Returns the origin of what stands below these keys."""
        return replace(self, keys=(*self.keys, *keys))

    def where(self, *keys: str) -> str:
        """Returns the place of a key, for messages."""
        return f"{self.source}: {'.'.join((*self.keys, *keys))}"


@dataclass(frozen=True)
class StepSource:
    """The local parts of a step: three tables of keys, each with the file that it is written in."""

    inputs: tuple[Table, FileOrigin]
    command: tuple[Table, FileOrigin] | None = None
    """What names the code."""
    environment: tuple[Table, FileOrigin] | None = None


@dataclass(frozen=True)
class Inlined:
    """A document with the components' files in it. steps: what else belongs to each step, by its path."""

    document: Table
    steps: dict[str, StepSource] = field(default_factory=dict[str, StepSource])


def inline(document: Mapping[str, Any], origin: FileOrigin) -> Inlined:
    """Returns a pipeline's document with its components. Raises SpecError."""
    whole, steps = dict(document), dict[str, StepSource]()
    compute = _compute(whole, None)
    if isinstance(whole.get("component"), str | dict):
        component, inside = _component(whole["component"], origin, ("component",))
        if isinstance(component, dict):
            _inputs(whole, cast("Table", component), inside, compute)
            steps |= _jobs(cast("Table", component), inside, "", compute)
        whole["component"] = component
    else:
        steps |= _jobs(whole, origin, "", compute)
    return Inlined(whole, steps)


def inline_component(document: Mapping[str, Any], origin: FileOrigin) -> Inlined:
    """Returns a component's document with the components that it names, for its registration.

    What belongs to the component itself, such as the local data that is the default of an input, is at the path "".
    """
    whole = dict(document)
    defaults = _local_defaults({}, cast("Table", whole.get("inputs") or {}), origin.base)
    inputs: tuple[Table, FileOrigin] = ({"inputs": defaults}, origin)
    if whole.get("type") == "pipeline":
        own = {"": StepSource(inputs)} if defaults else {}
        return Inlined(whole, {**own, **_jobs(whole, origin, "", None)})
    command = _with_code(whole, origin)
    return Inlined(whole, {"": StepSource(inputs, command, command)})


def inline_trial(document: Mapping[str, Any], origin: FileOrigin) -> tuple[Table, FileOrigin]:
    """Returns a sweep's document with the component that its `trial` names, and the origin of that component.

    A registered component stays a name, which the server looks up.
    """
    trial = document.get("trial")
    if not isinstance(trial, str):
        return dict(document), origin
    component, inside = _component(trial, origin, ("trial",))
    if isinstance(component, str):
        return dict(document), origin
    made = load_component_text(inside.text, inside.source)
    if not isinstance(made, CommandComponent):
        raise SpecError("a trial is a command", where=origin.where("trial"), fix="Name a component of type command.")
    defaults = _local_defaults(document, to_dict(made).get("inputs") or {}, inside.base)
    own: Table = {**document, "inputs": {**cast("Table", document.get("inputs") or {}), **defaults}}
    try:
        return with_environments(with_component(own, made), inside.base), inside
    except SpecError as error:
        raise SpecError(error.what, where=origin.where(error.where), fix=error.fix) from None


# --- the steps --------------------------------------------------------------------------------------------------
def _jobs(pipeline: Table, origin: FileOrigin, prefix: str, compute: str | None) -> dict[str, StepSource]:
    """Puts the components into the steps of a pipeline's table; returns what else belongs to each step."""
    nodes = cast("Table", pipeline.get("jobs") or {})
    done, steps = dict(nodes), dict[str, StepSource]()
    for name, node in nodes.items():
        if isinstance(node, dict) and not is_other(str(cast("Table", node).get("type"))):
            done[name] = dict(cast("Table", node))
            steps |= dict(_step(done[name], origin.at("jobs", name), f"{prefix}{name}", compute))
    pipeline["jobs"] = done
    return steps


def _step(node: Table, origin: FileOrigin, path: str, compute: str | None) -> Iterator[tuple[str, StepSource]]:
    """Puts a step's component into its table."""
    component: Any
    key = "trial" if node.get("type") == "sweep" else "component"
    own = _compute(node, compute)
    if node.get("type") in (None, "command", "parallel", "sweep", "pipeline") and key in node:
        component, inside = _component(node[key], origin, (key,))
        node[key] = component
    else:
        component, inside = None, origin
    table = cast("Table", component) if isinstance(component, dict) else None
    if table is not None and table.get("type") == "pipeline":
        node["type"] = "pipeline"
        yield path, StepSource((_inputs(node, table, inside, own), origin))
        yield from _jobs(table, inside, f"{path}/", own).items()
        return
    origin.count.add(origin.where())
    command = _with_code(*((table, inside) if table is not None else (node, origin)))
    environment = (node, origin) if node.get("environment") is not None else command
    has_command = table is not None or "command" in node or "task" in node
    yield (
        path,
        StepSource(
            (_inputs(node, table, inside, own), origin),
            command if has_command else None,
            environment if has_command or node.get("environment") is not None else None,
        ),
    )


def _with_code(table: Table, origin: FileOrigin) -> tuple[Table, FileOrigin]:
    """The table that names code and environment of a step or component: of a parallel one, its `task`."""
    task = table.get("task")
    is_parallel = table.get("type") == "parallel" and isinstance(task, dict)
    return (cast("Table", task), origin.at("task")) if is_parallel else (table, origin)


def _compute(table: Table, outer: str | None) -> str | None:
    settings = cast("Table", table.get("settings") or {})
    return settings.get("default_compute") or table.get("compute") or outer


def _inputs(node: Table, component: Table | None, inside: FileOrigin, compute: str | None) -> Table:
    """The inputs of a step, with the local paths that are its component's defaults, and paths of data written out.

    inside: where the component is written.
    """
    given = cast("Table", node.get("inputs") or {})
    ports = cast("Table", component.get("inputs") or {}) if component is not None else {}
    written = {name: _written_out(value, ports.get(name)) for name, value in given.items()}
    written |= _local_defaults(node, ports, inside.base)
    if written != given:
        node["inputs"] = written
    return {"inputs": written, "compute": compute}


def _local_defaults(node: Mapping[str, Any], ports: Table, base: Path) -> Table:
    """The local data of a component's inputs to which nothing is given, by paths of this machine."""
    given = {**cast("Table", node.get("inputs") or {}), **cast("Table", node.get("search_space") or {})}
    missing = {name: port for name, port in ports.items() if given.get(name) is None}
    return {name: one for name, port in missing.items() if (one := _local_default(port, base))}


def _local_default(port: Any, base: Path) -> Table | None:
    table = cast("Table", port) if isinstance(port, dict) else {}
    path = table.get("path")
    local = local_path(path) if isinstance(path, str) and "${{" not in path else None
    if local is None:
        return None
    keys = {key: table[key] for key in ("type", "mode") if key in table}
    return {**keys, "path": str((base / Path(local).expanduser()).absolute())}


def _written_out(value: Any, port: Any) -> Any:
    kind = cast("Table", port).get("type", "uri_folder") if isinstance(port, dict) else ""
    is_data = kind not in ("", "string", "number", "integer", "boolean")
    return {"type": kind, "path": value} if is_data and isinstance(value, str) and "${{" not in value else value


# --- one component ----------------------------------------------------------------------------------------------
def _component(given: Any, origin: FileOrigin, keys: tuple[str, ...]) -> tuple[Any, FileOrigin]:
    """The component as a table and where it is written; a registered one stays a name."""
    if isinstance(given, dict):
        return dict(cast("Table", given)), origin.at(*keys)
    if not isinstance(given, str) or registered_name(given, origin.where(*keys)) is not None:
        return given, origin
    return read_component(component_path(given, origin.base), origin, keys)


def read_component(path: Path, named_by: FileOrigin, keys: tuple[str, ...]) -> tuple[Table, FileOrigin]:
    """Returns the component in a file, and its origin. Raises SpecError."""
    if named_by.depth > MAX_DEPTH:
        raise SpecError("component files name one another in a circle", where=named_by.where(*keys))
    try:
        text = read_text(path)
    except SpecError as error:
        fix = f"{error.fix} A registered component is named `azureml:NAME:VERSION`.".strip()
        raise SpecError(f"{error.what}: {path}", where=named_by.where(*keys), fix=fix) from None
    component = load_component_text(text, str(path))
    table = with_environments(to_dict(component), path.absolute().parent)
    depth, count = named_by.depth + 1, named_by.count
    return table, FileOrigin(path.absolute().parent, str(path), text, depth=depth, count=count)


def load_component_origin(component: Any, sets: Sequence[str]) -> tuple[Table, FileOrigin]:
    """Returns a component to register as a table, and where it is written. component: a path, a mapping, or a model."""
    if isinstance(component, str | Path):
        path = Path(component)
        text = read_text(path)
        loaded = load_text(text, COMPONENT, str(path), sets)
        table = with_environments(to_dict(loaded), path.absolute().parent)
        return table, FileOrigin(path.absolute().parent, str(path), text)
    if sets:
        what = "values are set in a file; this component was made in Python"
        raise SpecError(what, fix="Set them on the object.")
    made = component_from(cast("Table", component)) if isinstance(component, Mapping) else component
    return to_dict(made), FileOrigin(Path.cwd(), "component")

"""Components in files of their own, and the texts by which steps and trials name a component."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from drumbeat.jobfile.data.paths import local_path
from drumbeat.jobfile.pipelines.component import CommandComponent
from drumbeat.jobfile.pipelines.parallel import ParallelComponent
from drumbeat.jobfile.pipelines.pipeline_job import PipelineComponent
from drumbeat.jobfile.reading.error_messages import fold, nearest, shown, words
from drumbeat.jobfile.reading.loader import DocumentKind, Places, load_text, model_from
from drumbeat.jobfile.reading.model import Model
from drumbeat.model.errors import NotYetError, Problem, SpecError

Component = CommandComponent | ParallelComponent | PipelineComponent

KINDS = ("command", "parallel", "pipeline")
LATER = ("sweep", "automl", "spark", "import", "data_transfer")
"""Types of component that other services have, and this version does not run."""
LATEST = "latest"

_REGISTERED = re.compile(
    r"azureml:(?://?.*/components/(?P<long>[^/]+)(?:/versions/(?P<in_path>[^/]+)|/labels/(?P<label_in_path>[^/]+)|/)?"
    r"|(?P<name>[^:@/]+)(?::(?P<version>[^:@/]+)|@(?P<label>[^:@/]+))?)"
)


@dataclass(frozen=True)
class RegisteredName:
    """The name of a registered component, and the version that is meant: "" = the newest."""

    name: str
    version: str = ""

    @property
    def text(self) -> str:
        """The name as a file writes it."""
        return f"azureml:{self.name}:{self.version}" if self.version else f"azureml:{self.name}@{LATEST}"


def registered_name(text: str, where: str = "") -> RegisteredName | None:
    """Returns the registered component that a text names; None where it names a file. Raises SpecError."""
    if not text.startswith("azureml:"):
        return None
    match = _REGISTERED.fullmatch(text)
    if match is None:
        raise SpecError(f"{shown(text)} names no component", where=where, fix="Write `azureml:NAME:VERSION`.")
    name, version = match["name"] or match["long"], match["version"] or match["in_path"] or ""
    label = match["label"] or match["label_in_path"]
    if label not in (None, LATEST):
        what = f"components have no label {shown(label)}; there is `{LATEST}`"
        raise SpecError(what, where=where, fix=f"Write `azureml:{name}@{LATEST}`, or a version.")
    return RegisteredName(name, version)


def load_component_text(text: str, source: str) -> Component:
    """Reads the component in a YAML text; raises `SpecError` with every problem at its line."""
    return cast("Component", load_text(text, COMPONENT, source))


def component_from(document: Mapping[str, Any], name: str = "component") -> Component:
    """Returns the component in a mapping; places in messages are `name.key`."""
    return cast("Component", model_from(document, COMPONENT, name))


def component_path(text: str, base: Path) -> Path:
    """Returns the path of a component's file. base: the folder of the file that names it."""
    return base / Path(local_path(text) or text).expanduser()


def _choose_model(document: Mapping[str, Any], places: Places) -> type[Model]:
    """Returns the model that the file's `type` names; a file without one describes a command."""
    kind = document.get("type")
    match fold(kind) if isinstance(kind, str) else kind:
        case None | "command":
            return CommandComponent
        case "parallel":
            return ParallelComponent
        case "pipeline":
            return PipelineComponent
        case str(other) if other in map(fold, LATER):
            raise NotYetError(
                f"this version of drumbeat doesn't run components of type `{kind}`",
                where=places(("type",), "value", ""),
                fix=f"Write a component of type {words(KINDS, 'or')}.",
            )
        case _:
            what = f"`type`: a component is {words(KINDS, 'or')}, not {shown(kind)}"
            raise SpecError.from_problems([Problem(what, places(("type",), "value", ""), nearest(kind, KINDS))])


COMPONENT = DocumentKind("a component", _choose_model, "`command:`")

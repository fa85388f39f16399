"""Registered components."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from drumbeat.jobfile.builders.command import Command
from drumbeat.jobfile.builders.component import ComponentFunction
from drumbeat.jobfile.builders.pipeline import is_pipeline_function, pipeline_component
from drumbeat.jobfile.pipelines.component import CommandComponent
from drumbeat.jobfile.pipelines.parallel import ParallelComponent
from drumbeat.jobfile.pipelines.pipeline_job import PipelineComponent
from drumbeat.ml.calls.operation import VersionOperations, pages, unavailable, version_of
from drumbeat.ml.objects.components import Component
from drumbeat.ml.objects.plain import ValidationResult
from drumbeat.model.errors import SpecError
from drumbeat.resources.component import COMPONENT


class ComponentOperations(VersionOperations):
    """Registered components. A version never changes."""

    kind = COMPONENT

    def create_or_update(
        self, component: Any, version: str | None = None, *, skip_validation: bool = False, **keys: Any
    ) -> Component:
        """Registers a component: one that was loaded or made, a command, or a `@pipeline` function."""
        del skip_validation, keys
        model = component_model(component)
        if version is not None:
            model = model.model_copy(update={"version": str(version)})
            model.model_fields_set.add("version")
        return Component.from_view(self.client.create_component(model))

    def get(self, name: str, version: str | None = None, label: str | None = None) -> Component:
        """Returns a version; without version and label the newest."""
        return Component.from_view(self.client.component(name, version_of("component", version, label)))

    def list(self, name: str | None = None, *, list_view_type: str = "ActiveOnly") -> Iterator[Component]:
        """Returns the newest version of each name; with a name all of its versions, newest first."""
        return pages(Component.from_view(one) for one in self._listed(name, list_view_type))

    def validate(self, component: Any, raise_on_failure: bool = False, **keys: Any) -> ValidationResult:  # noqa: FBT001, FBT002 - Azure's own signature
        """Says whether it is a component that could be registered."""
        del keys
        try:
            component_model(component)
        except SpecError as error:
            if raise_on_failure:
                raise
            return ValidationResult(passed=False, error_messages={"*": str(error)})
        return ValidationResult(passed=True, error_messages={})

    def download(self, name: str, *, download_path: str | os.PathLike[str] = ".", version: str | None = None) -> None:
        """Refuses: a component's code isn't brought back by this client."""
        raise unavailable("drumbeat.ml doesn't download components", f"See it: drumbeat component show {name}")


def component_model(given: Any) -> CommandComponent | ParallelComponent | PipelineComponent:
    """Returns what a script calls a component as its model. Raises SpecError."""
    if is_pipeline_function(given):
        return pipeline_component(given)
    if isinstance(given, ComponentFunction):
        return given.component
    if isinstance(given, Command):
        return given.component
    if isinstance(given, CommandComponent | ParallelComponent | PipelineComponent):
        return given
    if hasattr(given, "_mldesigner") or hasattr(given, "_component"):
        what = "a function of mldesigner is no component of drumbeat.ml: mldesigner builds on Azure's own package"
        raise SpecError(
            what, fix="Put the function into a script, and make it a component with command(...).component."
        )
    raise SpecError(
        f"{type(given).__name__} isn't a component", fix="Take load_component(...) or command(...).component."
    )

"""Components as scripts make them, and as the server answers them: each is called with its inputs to give a step."""

from __future__ import annotations

from typing import Any

from drumbeat.jobfile.builders.bindings import as_table
from drumbeat.jobfile.builders.component import ComponentFunction
from drumbeat.jobfile.pipelines import component as component_models
from drumbeat.jobfile.pipelines import pipeline_job as pipeline_models
from drumbeat.jobfile.pipelines.component_file import component_from
from drumbeat.ml.objects.plain import SystemData
from drumbeat.model.api.components import ComponentView


class Component(ComponentFunction):
    """A component, registered or not."""

    id: str | None = None
    creation_context: SystemData | None = None

    @classmethod
    def from_view(cls, view: ComponentView) -> Component:
        """Returns a registered component, which steps name by its version."""
        kind = _class_of(view.type)
        made = kind.__new__(kind)
        reference = f"azureml:{view.title}"
        ComponentFunction.__init__(made, component_from(view.document), reference)
        context = SystemData(created_at=view.created_at, created_by="")
        for key, value in {"id": reference, "creation_context": context, "version": view.version}.items():
            object.__setattr__(made, key, value)
        return made


class CommandComponent(Component):
    """A command with declared inputs and outputs."""

    def __init__(
        self,
        *,
        environment: Any = None,
        resources: Any = None,
        instance_count: int | None = None,
        properties: dict[str, str] | None = None,
        **keys: Any,
    ) -> None:
        del properties  # Labels of a component that nothing here reads.
        count = {} if instance_count is None else {"instance_count": instance_count}
        sized = {**as_table(resources), **count}
        given = {**keys, "environment": environment, "resources": sized or None}
        written = {key: value for key, value in given.items() if value is not None}
        super().__init__(component_models.CommandComponent.made(written))


class PipelineComponent(Component):
    """A pipeline with declared inputs and outputs, whose `jobs` are steps."""

    def __init__(self, *, jobs: dict[str, Any] | None = None, **keys: Any) -> None:
        names = {id(step): name for name, step in (jobs or {}).items()}
        nodes = {name: step.to_node(names) if hasattr(step, "to_node") else step for name, step in (jobs or {}).items()}
        given = {key: value for key, value in keys.items() if value is not None}
        super().__init__(pipeline_models.PipelineComponent.made({**given, "jobs": nodes}))


def _class_of(kind: str) -> type[Component]:
    return PipelineComponent if kind == "pipeline" else CommandComponent

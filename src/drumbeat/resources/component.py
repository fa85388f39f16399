"""Components: what steps of pipelines and trials of sweeps run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from drumbeat.model.api.components import ComponentView
from drumbeat.resources.kind import Kind, Sentences, StoredResource

if TYPE_CHECKING:
    from drumbeat.jobfile.reading.loader import DocumentKind


def _model() -> DocumentKind:
    from drumbeat.jobfile.pipelines.component_file import COMPONENT as MODEL

    return MODEL


def _view(kept: StoredResource) -> ComponentView:
    table: dict[str, Any] = kept.document["component"]
    parts: dict[str, dict[str, Any]] = kept.document["parts"]
    return ComponentView(
        name=kept.name,
        version=kept.version,
        type=str(table.get("type") or "command"),
        created_at=kept.created_at,
        display_name=str(table.get("display_name") or ""),
        description=str(table.get("description") or ""),
        is_deterministic=bool(table.get("is_deterministic", True)),
        inputs=table.get("inputs") or {},
        outputs=table.get("outputs") or {},
        code={path: one["code"] for path, one in parts.items() if one.get("code")},
        jobs=kept.jobs(),
        is_archived=kept.is_archived,
        document={"name": kept.name, "version": kept.version, **table},
    )


def _columns(one: ComponentView) -> Mapping[str, object]:
    inputs, outputs = ", ".join(one.inputs), ", ".join(one.outputs)
    title = one.title + (" (archived)" if one.is_archived else "")
    row = {"component": title, "type": one.type, "inputs": inputs, "outputs": outputs}
    return {**row, "created": one.created_at, ">jobs": len(one.jobs)}


COMPONENT = Kind(
    name="component",
    noun="component",
    plural="components",
    path="components",
    has_versions=True,
    view_type=ComponentView,
    view=_view,
    model=_model,
    sentences=Sentences(
        about="Register components, which pipelines use as steps and sweeps as trials.",
        page="docs/pipelines.md",
        list="List the registered components, every version, newest first.",
        show="Show a component: its inputs, outputs and command, and the jobs that used it.",
        delete="Delete a version of a component. Jobs that use it continue.",
        example="train:2",
        create_example="-f train.yml",
        columns=_columns,
        empty="no components; register one: drumbeat component create -f FILE",
        deleted="component {name} is deleted",
    ),
)

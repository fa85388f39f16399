"""Registered models."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from drumbeat.model.api.models import ModelView
from drumbeat.resources.kind import Kind, Sentences

if TYPE_CHECKING:
    from drumbeat.jobfile.reading.loader import DocumentKind


def _model() -> DocumentKind:
    from drumbeat.jobfile.data.assets import MODEL as KIND

    return KIND


def _columns(one: ModelView) -> Mapping[str, object]:
    row = {"model": one.title, "type": one.type, "stage": one.stage, "aliases": ", ".join(one.aliases)}
    return {**row, "signed": "yes" if one.statement else "no", "created": one.created_at, "by job": one.made_by}


MODEL = Kind(
    name="model",
    noun="model",
    plural="models",
    path="models",
    has_versions=True,
    view_type=ModelView,
    model=_model,
    sentences=Sentences(
        about="Register models, and follow them back to the jobs that made them. See docs/models.md.",
        page="docs/models.md",
        list="List models: the newest version of each name, or all versions of one name.",
        show="Show a version of a model, and its way back: job, code, data, environment.",
        delete="Delete the entry of a version of a model. The files stay where they are.",
        example="digits:3",
        create_example="digits --path ./model",
        columns=_columns,
        empty="no models; register one: drumbeat model create NAME --path PATH",
        deleted="model {name} deleted; its files stay where they are",
    ),
)

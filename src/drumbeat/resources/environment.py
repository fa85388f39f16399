"""Environments: what jobs run in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from drumbeat.model.api.environments import EnvironmentView
from drumbeat.resources.kind import Kind, Sentences

if TYPE_CHECKING:
    from drumbeat.jobfile.reading.loader import DocumentKind


def _model() -> DocumentKind:
    from drumbeat.jobfile.environments.environment_keys import ENVIRONMENT as MODEL

    return MODEL


ENVIRONMENT = Kind(
    name="environment",
    noun="environment",
    plural="environments",
    path="environments",
    has_versions=True,
    view_type=EnvironmentView,
    model=_model,
    sentences=Sentences(
        about=(
            "Create and inspect environments, which jobs run in. By default, jobs use the server's Python interpreter."
        ),
        page="docs/environments.md",
        list="List environments: every version that users created, or the curated ones.",
        show="Show an environment: its packages, their source, and the jobs that used it.",
        delete=(
            "Delete a version of an environment. Jobs that use it continue; nodes keep their built copy until it"
            " expires."
        ),
        example="mine:2",
        create_example="mine --requirements requirements.txt",
        deleted="environment {name} deleted",
    ),
)

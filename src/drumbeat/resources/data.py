"""Data by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from drumbeat.model.api.data import DataView
from drumbeat.resources.kind import Kind, Sentences

if TYPE_CHECKING:
    from drumbeat.jobfile.reading.loader import DocumentKind


def _model() -> DocumentKind:
    from drumbeat.jobfile.data.assets import DATA as MODEL

    return MODEL


DATA = Kind(
    name="data",
    noun="data",
    plural="data",
    path="data",
    has_versions=True,
    view_type=DataView,
    model=_model,
    sentences=Sentences(
        about="Register data by name and version, and copy files to and from stores. See docs/data.md.",
        page="docs/data.md",
        list="List data: the newest version of each name, or all versions of one name.",
        show="Show a version of data: where it is stored, which job created it, and which jobs used it.",
        delete="Delete the entry of a version of data. The files stay in the store.",
        example="digits@latest",
        create_example="digits --path ./digits",
        deleted="data {name} deleted; its files stay in the store",
    ),
)

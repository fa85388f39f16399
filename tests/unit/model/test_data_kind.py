"""The type that a version of data is shown with."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from drumbeat.model.api.data import DataView

pytestmark = pytest.mark.feature("D2")


@pytest.mark.parametrize(
    ("type_", "tag", "kind"),
    [
        ("uri_folder", "mlflow_model", "mlflow_model"),
        ("uri_folder", "resnet50", "uri_folder"),
        ("uri_file", "mlflow_model", "uri_file"),
    ],
)
def test_kind_of_data_is_the_tag_of_a_folder_that_is_a_model(type_: str, tag: str, kind: str):
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    shown = DataView("mod", "1", type_, "file:///mod", "", moment, "", "", {"model_type": tag}, files=1, size=1)
    assert shown.kind == kind

import dataclasses
from typing import Any

import pytest
from pydantic import BaseModel

from drumbeat.client import views as ours
from drumbeat.server.api import views as theirs

PAIRS: list[tuple[Any, type[BaseModel], set[str]]] = [
    (ours.JobView, theirs.JobWithStory, set()),
    (ours.StoryLine, theirs.StoryView, set()),
    (ours.NodeView, theirs.NodeView, set()),
    (ours.ExitView, theirs.ExitView, set()),
    (ours.ObservedView, theirs.ObservedView, set()),
    (ours.VerdictView, theirs.VerdictView, set()),
    (ours.FailureView, theirs.FailureView, set()),
    (ours.LogPiece, theirs.LogView, set()),
    (ours.End, theirs.EndView, set()),
    (ours.PreviewView, theirs.PreviewView, set()),
    (ours.FileView, theirs.FileView, set()),
    (ours.MachineView, theirs.MachineView, set()),
    (ours.HeldView, theirs.HeldView, set()),
    (ours.ComputeView, theirs.ComputeInfo, set()),
    (ours.AliasView, theirs.AliasView, set()),
    (ours.DoorView, theirs.DoorView, set()),
    (ours.StatusView, theirs.StatusView, {"version", "host", "pid", "home", "url"}),
]


@pytest.mark.parametrize(("our", "their", "beside"), PAIRS)
def test_the_client_knows_every_key_that_the_server_says(our: Any, their: type[BaseModel], beside: set[str]) -> None:
    assert {one.name for one in dataclasses.fields(our)} - beside == set(their.model_fields)

"""Versions of data whose files became others behind their back."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from drumbeat.jobfile.data.assets import DataAsset
from drumbeat.model.errors import ConflictError
from drumbeat.model.plan import InputPlan
from drumbeat.server.data.data_assets import DataAssets
from drumbeat.server.data.datastores import Datastores
from drumbeat.server.data.inputs import JobInputs
from drumbeat.server.home_folder import FolderArtifacts
from drumbeat.server.resources.records import Use
from tests.support.fake_clock import FakeClock
from tests.support.memory_data import ROOT, MemoryData
from tests.support.memory_store import MemoryStore
from tests.support.registries import make_models
from tests.support.sample_jobs import submission

pytestmark = pytest.mark.feature("D2", "D4")


class Room:
    """A version of data, and the inputs of a job that reads it."""

    def __init__(self, folder: Path) -> None:
        self.store, self.data = MemoryStore(), MemoryData({"model/a": b"first", "model/b": b"2"})
        models = make_models(self.store, self.data)
        self.assets = DataAssets(self.store, FakeClock(), Datastores(self.store, b"k"), self.data, models)
        self.assets.register(DataAsset(name="model", path="s3://bucket/model"), f"{ROOT}/model")
        first = submission("reads")
        planned = InputPlan("m", "uri_folder", f"{ROOT}/model", "download")
        self.job = replace(first.job, plan=replace(first.job.plan, inputs=(planned,)))
        uses = (Use("environment", "model", "1", "environment"), Use("data", "model", "1", "inputs.m"))
        self.store.submit(replace(first, job=self.job, uses=uses))
        artifacts = FolderArtifacts(folder)
        self.inputs = JobInputs(artifacts, self.data, lambda _name: self.job, self.assets.require_registered)


@pytest.fixture
def room(tmp_path: Path) -> Room:
    return Room(tmp_path)


def test_a_version_whose_files_are_others_now_is_refused_to_a_job(room: Room):
    room.data.files["model/a"] = b"second"
    with pytest.raises(ConflictError) as refused:
        room.inputs.listing("reads", "m")
    assert refused.value.what == (
        "input m: data model:1 has changed since it was registered: then 2 files with 6 bytes, now 2 files with 7 bytes"
    )
    assert (
        refused.value.fix == "Register the current files as a new version, and give each version a `path` of its own."
    )


def test_a_version_with_the_files_that_were_registered_is_read_by_a_job(room: Room):
    assert [one.path for one in room.inputs.listing("reads", "m").files] == ["a", "b"]
    room.data.files["model/a"] = b"second"
    assert [one.size for one in room.inputs.listing("reads", "m").files] == [5, 1]


def test_version_deleted_meanwhile_is_still_read(room: Room):
    room.assets.delete("model", "1")
    room.data.files["model/a"] = b"second"
    assert [one.size for one in room.inputs.listing("reads", "m").files] == [6, 1]


def test_address_of_a_version_is_registered_and_no_other(room: Room):
    found = [room.assets.is_registered(uri) for uri in (f"{ROOT}/model", f"{ROOT}/model/a", f"{ROOT}/other")]
    assert found == [True, False, False]

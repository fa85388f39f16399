"""Uploads of data that were refused: removed, unless a job or a version uses them."""

from __future__ import annotations

from dataclasses import replace

from drumbeat.model.plan import InputPlan
from drumbeat.server.data.data_assets import DataAssets
from drumbeat.server.data.datastores import Datastores
from drumbeat.server.database.records import Submission
from tests.support.fake_clock import FakeClock
from tests.support.memory_data import MemoryData
from tests.support.memory_store import MemoryStore
from tests.support.registries import make_models
from tests.support.sample_jobs import submission

UPLOAD = f"azureml://datastores/store/paths/uploads/{'0' * 64}/images"
MANY = 1001


def _reading(first: Submission) -> Submission:
    plan = replace(first.job.plan, inputs=(InputPlan("images", "uri_folder", f"{UPLOAD}/train", "download"),))
    return replace(first, job=replace(first.job, plan=plan))


def test_upload_used_by_oldest_of_many_unfinished_jobs_is_kept() -> None:
    store = MemoryStore()
    data = MemoryData()
    assets = DataAssets(store, FakeClock(), Datastores(store, b"key"), data, make_models(store, data))
    assert not assets._is_used(UPLOAD)
    store.submit(_reading(submission("oldest")))
    for number in range(MANY):
        store.submit(submission(f"job-{number}"))
    assert assets._is_used(UPLOAD)

"""Steps whose inputs are used in place, or whose outputs have places: reused where nothing has changed, else run."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest

from drumbeat.core.lifecycle.output_publication import outputs_left
from drumbeat.model.api.requests import JobRequest, StepParts
from drumbeat.model.states import State
from drumbeat.server.home_folder import FolderArtifacts
from tests.support.fake_engine import FakeEngine
from tests.support.memory_data import MemoryData
from tests.support.memory_store import MemoryStore

from .house import House, until

pytestmark = pytest.mark.feature("P1")

DATA: dict[str, object] = {"name": "data", "type": "path"}


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    engine = FakeEngine()
    there = House(tmp_path / "server", MemoryStore(), engine, lambda _: engine)
    yield there
    there.control.stop()


@pytest.fixture
def digits(tmp_path: Path) -> Path:
    folder = tmp_path / "data" / "digits"
    folder.mkdir(parents=True)
    (folder / "one").write_text("1")
    return folder


def add(house: House, kind: str, at: Path, share: dict[str, object], **keys: object) -> None:
    """Adds a compute with a share, which has the name of its type."""
    shares = [{**DATA, "path": str(at), **share}]
    house.control.computes.create({"name": kind, "type": kind, "shares": shares, **keys})


def reused(house: House, name: str, place: Path, compute: str = "local") -> str:
    """The job whose result the only step of a pipeline takes; "" = it is run, which this waits for."""
    step = {"type": "command", "command": "cat ${{inputs.data}}/*", "inputs": {"data": {"path": str(place)}}}
    document = {"type": "pipeline", "name": name, "settings": {"default_compute": compute}, "jobs": {"read": step}}
    parts = {"read": StepParts(inputs={"data": place.as_uri()})}
    house.control.jobs.submit(JobRequest(document, parts=parts))

    def source() -> str:
        pipeline = house.store.load(name).job.pipeline
        assert pipeline
        return pipeline.steps[0].reused

    until(lambda: bool(source()) or f"{name}_read.1" in house.engine.gangs)
    if not source():
        house.run_to_end(f"{name}_read")
        until(lambda: house.state(f"{name}_read") is State.COMPLETED)
    return source()


def test_unchanged_folder_that_is_used_in_place_is_reused(house: House, digits: Path):
    assert reused(house, "a", digits) == ""
    assert reused(house, "b", digits) == "a_read"


def test_changed_folder_that_is_used_in_place_is_read_again(house: House, digits: Path):
    assert reused(house, "a", digits) == ""
    (digits / "two").write_text("2")
    assert reused(house, "b", digits) == ""


def test_folder_of_the_same_name_and_times_elsewhere_is_not_reused(house: House, digits: Path, tmp_path: Path):
    other = tmp_path / "other" / "digits"
    other.mkdir(parents=True)
    (other / "one").write_text("9")
    for folder in (digits, other):
        os.utime(folder / "one", (0, 0))  # As an archive's files have it that were packed reproducibly.
    assert reused(house, "a", digits) == ""
    assert reused(house, "b", other) == ""


def test_place_that_the_server_does_not_have_is_never_reused(house: House, tmp_path: Path):
    add(house, "netlab", tmp_path / "data", {})
    assert reused(house, "a", tmp_path / "data" / "digits", "netlab") == ""
    assert reused(house, "b", tmp_path / "data" / "letters", "netlab") == ""
    assert reused(house, "c", tmp_path / "data" / "digits", "netlab") == ""


def test_share_of_other_machines_is_never_reused(house: House, digits: Path):
    add(house, "ssh", digits.parent, {}, hosts=["gpu-1"])
    assert reused(house, "a", digits, "ssh") == ""
    assert reused(house, "b", digits, "ssh") == "", "the server's folder of that name is another one"


def test_share_on_the_file_system_of_slurms_nodes_is_reused(house: House, digits: Path, tmp_path: Path):
    add(house, "slurm", digits.parent, {}, folder=str(tmp_path))
    assert reused(house, "a", digits, "slurm") == ""
    assert reused(house, "b", digits, "slurm") == "a_read"


@pytest.mark.parametrize(
    "share",
    [{"type": "nfs"}, {"type": "sshfs", "source": "ada@gate:/data", "mount": True}],
    ids=["mounted_on_nodes_only", "mounted_by_nodes"],
)
def test_share_that_is_not_mounted_at_the_server_is_never_reused(house: House, digits: Path, share: dict[str, object]):
    add(house, "netlab", digits.parent, share)
    assert reused(house, "a", digits, "netlab") == ""
    assert reused(house, "b", digits, "netlab") == ""


def test_change_below_a_link_is_seen(house: House, digits: Path, tmp_path: Path):
    linked = tmp_path / "linked"
    linked.mkdir()
    (digits / "more").symlink_to(linked)
    assert reused(house, "a", digits) == ""
    (linked / "two").write_text("2")
    assert reused(house, "b", digits) == ""
    assert reused(house, "c", digits) == "b_read"


def test_link_to_a_file_system_that_slurms_nodes_lack_is_never_reused(house: House, digits: Path, tmp_path: Path):
    memory = Path("/dev/shm")
    if memory.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("/dev/shm and the folder of tests are one file system: give --basetemp another one")
    with tempfile.TemporaryDirectory(dir=memory) as elsewhere:
        (Path(elsewhere) / "two").write_text("2")
        (digits / "more").symlink_to(elsewhere)
        add(house, "slurm", digits.parent, {}, folder=str(tmp_path))
        assert reused(house, "a", digits, "slurm") == ""
        assert reused(house, "b", digits, "slurm") == "", "nodes have a folder of their own there, or none"


def test_link_that_leads_to_another_folder_is_read_again(house: House, digits: Path, tmp_path: Path):
    other, latest = tmp_path / "other", tmp_path / "latest"
    other.mkdir()
    (other / "one").write_text("9")
    for folder in (digits, other):
        os.utime(folder / "one", (0, 0))
    latest.symlink_to(digits)
    assert reused(house, "a", latest) == ""
    assert reused(house, "b", latest) == "a_read"
    latest.unlink()
    latest.symlink_to(other)
    assert reused(house, "c", latest) == ""


# --- outputs with places and names ------------------------------------------------------------------------------
@pytest.fixture
def lake(tmp_path: Path) -> Iterator[House]:
    """A control room with a store, to which outputs go."""
    there = House(tmp_path / "server", MemoryStore(), FakeEngine(), data=MemoryData())
    yield there
    there.control.stop()


def prepared(lake: House, job: str, version: str, *, writes: bool = True, **output: str) -> str:
    """The job whose result the only step of a pipeline takes; "" = it is run, and writes its version."""
    step = {"command": f"prepare {version} ${{{{outputs.o}}}}", "outputs": {"o": {"type": "uri_folder", **output}}}
    lake.control.jobs.submit(JobRequest({"type": "pipeline", "name": job, "jobs": {"prep": step}}))

    def source() -> str:
        pipeline = lake.store.load(job).job.pipeline
        assert pipeline
        return pipeline.steps[0].reused

    until(lambda: bool(source()) or f"{job}_prep.1" in lake.engine.gangs)
    if not source():
        if writes:
            content, artifacts = version.encode(), FolderArtifacts(lake.folder)
            artifacts.append_output(f"{job}_prep", 1, 0, "o/data", 0, content)
            told = {"o/data": (len(content), sha256(content).hexdigest())}
            assert artifacts.commit_outputs(f"{job}_prep", 1, 0, told) == []
        lake.run_to_end(f"{job}_prep")
    until(lambda: lake.state(job) is State.COMPLETED)
    until(lambda: bool(source()) or not outputs_left(lake.store.load(f"{job}_prep").job))
    return source()


PLACES = pytest.mark.parametrize(
    "output", [{"path": "s3://lake/latest/"}, {"name": "prepared"}], ids=["fixed_place", "named_asset"]
)


@PLACES
def test_step_whose_output_is_what_is_in_its_place_is_reused(lake: House, output: dict[str, str]):
    assert prepared(lake, "a", "v1", **output) == ""
    assert prepared(lake, "b", "v1", **output) == "a_prep"
    assert prepared(lake, "c", "v1", **output) == "a_prep"


@PLACES
def test_step_is_run_where_a_later_job_has_put_something_else(lake: House, output: dict[str, str]):
    assert prepared(lake, "a", "v1", **output) == ""
    assert prepared(lake, "b", "v2", **output) == ""
    assert prepared(lake, "c", "v1", **output) == "", "what is there is v2"
    assert prepared(lake, "d", "v1", **output) == "c_prep"


@PLACES
def test_step_whose_output_did_not_come_to_its_place_is_run(lake: House, output: dict[str, str]):
    assert prepared(lake, "a", "v1", writes=False, **output) == ""
    until(lambda: bool(lake.store.load("a_prep").job.published))
    assert lake.store.load("a_prep").job.published[0].problem == "the job wrote nothing to output o"
    assert prepared(lake, "b", "v1", **output) == ""


def test_step_with_a_place_of_its_jobs_name_is_reused_whatever_came_later(lake: House):
    place = "s3://lake/${{name}}/"
    assert prepared(lake, "a", "v1", path=place) == ""
    assert prepared(lake, "b", "v2", path=place) == ""
    assert prepared(lake, "c", "v1", path=place) == "a_prep"


def test_step_is_run_where_its_registered_version_was_removed(lake: House):
    assert prepared(lake, "a", "v1", name="prepared") == ""
    lake.store.remove_resource("data", "prepared", "1")
    assert prepared(lake, "b", "v1", name="prepared") == ""


# --- components that aren't deterministic -----------------------------------------------------------------------
def test_steps_of_a_pipeline_component_that_is_not_deterministic_are_always_run(lake: House):
    inside = {"fetch": {"command": "curl > ${{outputs.o}}/f", "outputs": {"o": {"type": "uri_folder"}}}}
    component = {"type": "pipeline", "is_deterministic": False, "jobs": inside}
    for name in "ab":
        document = {"type": "pipeline", "name": name, "jobs": {"outer": {"type": "pipeline", "component": component}}}
        lake.control.jobs.submit(JobRequest(document))
        lake.run_to_end(f"{name}_outer-fetch")
        until(lambda name=name: lake.state(name) is State.COMPLETED)

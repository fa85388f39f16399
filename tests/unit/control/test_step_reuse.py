"""Steps whose inputs are used in place: reused where the server sees that nothing has changed, else run."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from drumbeat.protocol.api.requests import JobRequest, StepParts
from drumbeat.protocol.states import State
from drumbeat.testing.fake_engine import FakeEngine
from drumbeat.testing.memory_store import MemoryStore

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


def test_folder_of_the_same_name_and_times_elsewhere_is_not_taken_for_it(house: House, digits: Path, tmp_path: Path):
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

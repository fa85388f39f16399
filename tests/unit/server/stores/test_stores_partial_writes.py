"""What a write that was broken off leaves in a store is removed, and nobody else's."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from drumbeat.jobfile.data.datastores import FolderDatastore
from drumbeat.model.errors import StorageError, UnreachableError
from drumbeat.server.data.stores import StoreAccess
from drumbeat.server.data.stores.partial_writes import PARTIAL_SUFFIX, PartialWrites

pytestmark = pytest.mark.feature("D3")

URI = "azureml://datastores/here/paths/run"

WRITES = """
import sys, time
from pathlib import Path
from drumbeat.jobfile.data.datastores import FolderDatastore
from drumbeat.server.data.stores import StoreAccess

def pieces():
    yield b"half"
    print("begun", flush=True)
    time.sleep(600)

stores = {"here": FolderDatastore(name="here", path=sys.argv[1])}
StoreAccess(lambda: stores, partial_writes=Path(sys.argv[2])).write(sys.argv[3], "deep/model.pt", pieces(), 8)
"""


@pytest.fixture
def store(tmp_path: Path) -> Path:
    (tmp_path / "store").mkdir()
    return tmp_path / "store"


def access(store: Path, home: Path) -> StoreAccess:
    return StoreAccess(lambda: {"here": FolderDatastore(name="here", path=str(store))}, partial_writes=home)


def halves(store: Path) -> list[Path]:
    return [*store.rglob(f".*{PARTIAL_SUFFIX}")]


def killed(store: Path, home: Path) -> None:
    """A server's process that is killed in the middle of a file."""
    with subprocess.Popen([sys.executable, "-c", WRITES, store, home, URI], stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"begun\n"
        writer.kill()


def test_partial_writes_of_a_killed_server_are_removed_at_its_next_write(store: Path, tmp_path: Path):
    killed(store, tmp_path / "one")
    killed(store, tmp_path / "other")
    assert len(halves(store)) == 2
    mine = access(store, tmp_path / "one")
    mine.write(URI, "a.txt", [b"a"], 1)
    assert len(halves(store)) == 1
    assert [*(tmp_path / "one").iterdir()] == []
    access(store, tmp_path / "other").write(URI, "b.txt", [b"b"], 1)
    assert halves(store) == []


def test_failed_removal_is_retried_at_the_next_write_to_the_store(tmp_path: Path):
    noted, removed = PartialWrites(tmp_path / "halves"), list[str]()
    with pytest.raises(UnreachableError), noted.begun("sftp://far", "run/model.pt") as name:
        raise UnreachableError("the line broke")

    def refuse(place: str) -> None:
        raise UnreachableError(f"{place}: the line is still down")

    with pytest.raises(UnreachableError), noted.begun("sftp://far", "run/other.pt"):
        raise UnreachableError("the line broke")
    asked = list[str]()
    noted.remove_left("sftp://far", lambda place: (asked.append(place), refuse(place))[1])
    assert len(asked) == 1, "a store that can't be reached isn't asked for the rest"
    again = PartialWrites(tmp_path / "halves")
    again.remove_left("sftp://near", removed.append)
    assert removed == []
    again.remove_left("sftp://far", removed.append)
    assert f"run/{name}" in removed
    again.remove_left("sftp://far", removed.append)
    assert len(removed) == 2
    assert [*(tmp_path / "halves").iterdir()] == []


@pytest.mark.feature("F10")
def test_write_without_a_note_on_disk_is_not_begun(store: Path, tmp_path: Path):
    mine = access(store, tmp_path / "home")
    (tmp_path / "home").rmdir()

    def pieces() -> Iterator[bytes]:
        raise AssertionError("it was begun")
        yield b""

    with pytest.raises(StorageError, match="can't be recorded"):
        mine.write(URI, "a.txt", pieces(), 1)
    assert [*store.iterdir()] == []

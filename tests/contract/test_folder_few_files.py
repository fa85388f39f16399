"""A server that has no files left to open says so as something that passes."""

import resource
from pathlib import Path

import pytest

from drumbeat.model.errors import UnreachableError
from drumbeat.server.data.stores.backend_contract import Wanted
from drumbeat.server.data.stores.folder import FolderBackend


def test_a_server_without_files_to_open_is_asked_again(tmp_path: Path):
    (tmp_path / "a").write_text("x")
    backend = FolderBackend(tmp_path, "datastore here")
    found = backend.file("a")
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, limits[1]))
    try:
        with pytest.raises(UnreachableError, match="the server has too many files open") as told:
            next(backend.read(Wanted("a", found.size, found.tag), 0, None))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert told.value.fix == "Raise its limit (ulimit -n)."

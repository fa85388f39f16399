"""Python 3.11.0 to 3.11.3 unpacks without tarfile's filters, and as carefully."""

from __future__ import annotations

import hashlib
import io
import stat
import tarfile
from pathlib import Path

import pytest

from drumbeat.model.errors import RefusedError
from drumbeat.node.platform.snapshot_archive import unpack

pytestmark = pytest.mark.feature("X5")


def tar(*members: tarfile.TarInfo) -> bytes:
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w") as archive:
        for member in members:
            archive.addfile(member, io.BytesIO(b"x" * member.size))
    return written.getvalue()


def member(name: str, mode: int, **more: object) -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.mode, made.size, made.uid, made.uname = mode, 0 if more else 1, 12345, "stranger"
    for key, value in more.items():
        setattr(made, key, value)
    return made


@pytest.fixture(params=[True, False])
def has_filters(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    if not request.param:
        monkeypatch.delattr(tarfile, "data_filter", raising=False)
    elif not hasattr(tarfile, "data_filter"):
        pytest.skip("this Python has no filters")
    return request.param


def test_files_have_plain_rights_and_no_stranger_for_an_owner(has_filters: bool, tmp_path: Path):
    content = tar(
        member("d", 0o777, type=tarfile.DIRTYPE),
        member("d/run.sh", 0o6777),
        member("d/a.txt", 0o666),
        member("d/odd", 0o411),
        member("d/link", 0o777, type=tarfile.SYMTYPE, linkname="a.txt"),
    )
    unpack(io.BytesIO(content), hashlib.sha256(content).hexdigest(), str(tmp_path / "new"))
    there = tmp_path / "new" / "d"
    rights = {one.name: stat.S_IMODE(one.lstat().st_mode) for one in there.iterdir() if not one.is_symlink()}
    assert rights == {"run.sh": 0o755, "a.txt": 0o644, "odd": 0o600}
    assert {one.lstat().st_uid for one in there.iterdir()} == {tmp_path.stat().st_uid}
    assert (there / "link").read_text() == "x"


@pytest.mark.parametrize("name", ["../out", "/etc/out"])
def test_what_leads_elsewhere_is_refused(has_filters: bool, tmp_path: Path, name: str):
    content = tar(member(name, 0o644))
    with pytest.raises(RefusedError):
        unpack(io.BytesIO(content), hashlib.sha256(content).hexdigest(), str(tmp_path / "new"))

"""Which links below the outputs are followed."""

import os
from pathlib import Path
from typing import Any

import pytest

from drumbeat.agent.ground.agent_log import Journal
from drumbeat.agent.output_upload import Outputs
from drumbeat.protocol.errors import StorageError


class Taker:
    """A server that takes all it is given."""

    def __init__(self) -> None:
        self.files: dict[str, Any] = {}

    def put(self, _path: str, offset: int, data: bytes) -> int:
        return offset + len(data)

    def commit(self, files: dict[str, Any]) -> list[str]:
        self.files = dict(files)
        return []


@pytest.mark.feature("D3")
def test_links_to_folders_are_followed_only_into_what_is_the_jobs_own(tmp_path: Path):
    job, outputs, foreign = tmp_path / "job", tmp_path / "job" / "outputs", tmp_path / "foreign"
    for folder in (outputs / "step-2", job / "code", foreign):
        folder.mkdir(parents=True)
        (folder / "file").write_text("x")
    (outputs / "latest").symlink_to("step-2")
    (outputs / "sources").symlink_to(job / "code")
    (outputs / "theirs").symlink_to(foreign / "file")
    (outputs / "root").symlink_to("/")
    (outputs / "elsewhere").symlink_to(foreign)
    server = Taker()
    link: Any = server
    with pytest.raises(StorageError, match="2 outputs, this one first, could not be kept: it is a link to") as told:
        Outputs(str(outputs), link, Journal(str(tmp_path / "journal")), lambda _: None, (str(job),)).send()
    assert told.value.where == str(outputs / "elsewhere")
    assert set(server.files) == {"step-2/file", "latest/file", "sources/file", "theirs"}


@pytest.mark.feature("D3")
def test_broken_links_and_pipes_in_outputs_are_left_out_and_named(tmp_path: Path):
    outputs = tmp_path / "outputs"
    (outputs / "step").mkdir(parents=True)
    (outputs / "step" / "file").write_text("x")
    (outputs / "latest").symlink_to("step-9")
    (outputs / "step" / "loop").symlink_to("loop")
    os.mkfifo(outputs / "pipe")
    (outputs / "zz").symlink_to(os.fsdecode(b"/gone/\xff"))
    server: Any = Taker()
    sender = Outputs(str(outputs), server, Journal(str(tmp_path / "journal")), lambda _: None)
    sender.send()
    assert set(server.files) == {"step/file"}
    assert sender.remark == (
        "4 entries of the outputs are not kept: latest (a broken link to step-9), pipe (not a file or folder), "
        "step/loop (a broken link to loop) and 1 more"
    )
    for path in ("latest", "step/loop", "pipe"):
        (outputs / path).unlink()
    sender.send()
    assert sender.remark == "1 entry of the outputs is not kept: zz (a broken link to /gone/\\xff)"
    (outputs / "zz").unlink()
    sender.send()
    assert sender.remark == ""

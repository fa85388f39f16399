"""Which links below the outputs are followed."""

import os
from pathlib import Path
from typing import Any

import pytest

from drumbeat.node.agent.output_upload import OutputUpload
from drumbeat.node.platform.agent_log import Journal


class Taker:
    """A server that takes all it is given."""

    def __init__(self) -> None:
        self.files: dict[str, Any] = {}

    def put(self, _path: str, offset: int, data: bytes, _hole: int = 0) -> int:
        return offset + len(data)

    def commit(self, files: dict[str, Any]) -> list[str]:
        self.files = dict(files)
        return []


@pytest.mark.feature("D3")
def test_links_are_followed_only_into_the_jobs_own_folders(tmp_path: Path):
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
    sender = OutputUpload(str(outputs), link, Journal(str(tmp_path / "journal")), lambda _: None, (str(job),))
    sender.send()
    assert set(server.files) == {"step-2/file", "latest/file", "sources/file", "theirs"}
    assert sender.message == (
        f"2 entries of the outputs are not kept: elsewhere (a link to {foreign}, a folder outside the job's own), "
        "root (a link to /, a folder outside the job's own)"
    )


@pytest.mark.feature("D3")
def test_names_that_are_not_utf8_and_empty_folders_are_named_and_fail_no_job(tmp_path: Path):
    default = tmp_path / "outputs" / "default"
    for folder in (b"empty", b"caf\xe9"):
        (default / os.fsdecode(folder)).mkdir(parents=True)
    for name in (b"caf\xe9/a", b"b\xff", b"c\xff", rb"c\xff", b"good"):
        (default / os.fsdecode(name)).write_bytes(name)
    (default / "self").symlink_to(".")
    server: Any = Taker()
    sender = OutputUpload(str(tmp_path / "outputs"), server, Journal(str(tmp_path / "journal")), lambda _: None)
    sender.send()
    assert set(server.files) == {f"default/{name}" for name in (r"caf\xe9/a", r"b\xff", r"c\xff", "good")}
    assert server.files[r"default/b\xff"]["size"] == 2
    assert sender.message == (
        r"3 entries of the outputs are not kept: default/c\xff (another file has the name that this one, "
        "whose name isn't UTF-8, would get), default/empty/ (an empty folder), default/self (a link to a folder that "
        "contains it); "
        r"2 entries of the outputs are kept by other names: default/b\xff (its name isn't UTF-8), default/caf\xe9/a "
        "(its name isn't UTF-8)"
    )


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
    sender = OutputUpload(str(outputs), server, Journal(str(tmp_path / "journal")), lambda _: None)
    sender.send()
    assert set(server.files) == {"step/file"}
    assert sender.message == (
        "4 entries of the outputs are not kept: latest (a broken link to step-9), pipe (not a file or folder), "
        "step/loop (a broken link to loop) and 1 more"
    )
    for path in ("latest", "step/loop", "pipe"):
        (outputs / path).unlink()
    sender.send()
    assert sender.message == "1 entry of the outputs is not kept: zz (a broken link to /gone/\\xff)"
    (outputs / "zz").unlink()
    sender.send()
    assert sender.message == ""

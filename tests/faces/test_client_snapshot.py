"""The code's snapshot: same content, same bytes; nothing that was to stay out; no way out."""

import io
import os
import socket
import tarfile
from contextlib import closing
from pathlib import Path

import pytest

from drumbeat.client.snapshot import LEAVE_OUT, pack
from drumbeat.model.errors import RefusedError, SpecError
from drumbeat.node.platform.snapshot_archive import unpack


def members_of(folder: Path, *, is_data: bool = False) -> list[tarfile.TarInfo]:
    packed = pack(folder, "code", is_data=is_data)
    with closing(packed.file):
        packed.file.seek(0)
        with tarfile.open(fileobj=packed.file) as tar:
            return tar.getmembers()


def names_of(folder: Path) -> list[str]:
    return [member.name for member in members_of(folder)]


def digest_of(folder: Path) -> str:
    packed = pack(folder, "code")
    packed.file.close()
    return packed.digest


def fill(folder: Path, *paths: str) -> None:
    for path in paths:
        place = folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(path)


@pytest.mark.feature("D8")
def test_same_content_gives_the_same_bytes(tmp_path: Path) -> None:
    paths = ["b.py", "a/c.py", "ä.txt", "x" * 150]
    fill(tmp_path / "one", *paths)
    fill(tmp_path / "two", *reversed(paths))
    os.utime(tmp_path / "two" / "b.py", (1, 1))
    (tmp_path / "two" / "b.py").chmod(0o600)
    assert digest_of(tmp_path / "one") == digest_of(tmp_path / "two")
    (tmp_path / "two" / "b.py").chmod(0o755)
    executable = digest_of(tmp_path / "two")
    assert executable != digest_of(tmp_path / "one")
    (tmp_path / "two" / "b.py").write_text("other")
    assert digest_of(tmp_path / "two") != executable


@pytest.mark.feature("D8")
def test_amlignore_comes_before_gitignore_and_both_nest(tmp_path: Path) -> None:
    fill(tmp_path, "keep.py", "data/big.bin", "logs/a.log", "sub/keep.log", "sub/drop.tmp", "sub/data/x", ".git/config")
    fill(tmp_path, "__pycache__/a.pyc", "sub/deeper/drop.tmp")
    (tmp_path / ".gitignore").write_text("*.log\n/data/\n")
    (tmp_path / "sub/.gitignore").write_text("!keep.log\n*.tmp\n")
    assert names_of(tmp_path) == [
        ".gitignore", "keep.py", "logs", "sub", "sub/.gitignore", "sub/data", "sub/data/x", "sub/deeper",
        "sub/keep.log",
    ]  # fmt: skip
    (tmp_path / ".amlignore").write_text("sub\n# a comment\n")
    assert "data/big.bin" in names_of(tmp_path)
    assert not [name for name in names_of(tmp_path) if name.startswith("sub")]


def test_a_rule_can_take_a_file_back_in(tmp_path: Path) -> None:
    fill(tmp_path, "a.csv", "b.csv", "deep/a.csv")
    (tmp_path / ".amlignore").write_text("*.csv\n!/a.csv\n")
    assert names_of(tmp_path) == [".amlignore", "a.csv", "deep"]


def test_invalid_pattern_matches_nothing_as_in_git(tmp_path: Path) -> None:
    fill(tmp_path, "a.csv", "b.txt")
    (tmp_path / ".gitignore").write_text("!\n*.csv\n[z-a\n")
    assert names_of(tmp_path) == [".gitignore", "b.txt"]


@pytest.mark.feature("D8")
def test_unreadable_ignore_file_is_refused_as_it_may_exclude_secrets(tmp_path: Path) -> None:
    fill(tmp_path, "a.py", "secret.env")
    ignore = tmp_path / ".amlignore"
    ignore.write_bytes("*.env\r\n".encode("utf-8-sig"))
    assert names_of(tmp_path) == [".amlignore", "a.py"]
    ignore.write_bytes("*.env\r\n".encode("utf-16"))
    with pytest.raises(SpecError, match="isn't UTF-8 text, so what it keeps out can't be told"):
        pack(tmp_path, "code")


def test_a_pipe_for_an_ignore_file_is_refused_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / ".gitignore")
    with pytest.raises(RefusedError, match="only files"):
        pack(tmp_path, "code")


def test_links_inside_stay_links(tmp_path: Path) -> None:
    fill(tmp_path, "real.txt", "deep/er/x")
    (tmp_path / "deep" / "up").symlink_to("../real.txt")
    (tmp_path / "absolute").symlink_to(tmp_path / "deep" / "er")
    (tmp_path / "dangling").symlink_to("not-yet")
    (tmp_path / "deep" / "top").symlink_to("..")
    (tmp_path / "relative").symlink_to("deep/er/")
    (tmp_path / "through").symlink_to("relative/x")
    links = {member.name: member.linkname for member in members_of(tmp_path) if member.issym()}
    assert links == {
        "deep/up": "../real.txt", "deep/top": "..", "absolute": "deep/er", "relative": "deep/er", "dangling": "not-yet",
        "through": "relative/x",
    }  # fmt: skip


def test_links_that_name_the_folder_itself_are_taken_by_a_node_under_whatever_name(tmp_path: Path) -> None:
    folder = tmp_path / "proj"
    fill(folder, "y", "deep/er/z")
    (folder / "x").symlink_to("../proj/y")
    (folder / "deep" / "all").symlink_to("../../proj/deep/er")
    (folder / "self").symlink_to("../proj")
    packed = pack(folder, "code")
    with closing(packed.file):
        unpack(io.BytesIO(b"".join(packed.pieces())), packed.digest, str(tmp_path / "code"))  # type: ignore[arg-type]
    assert (tmp_path / "code" / "x").read_text() == "y"
    assert (tmp_path / "code" / "deep" / "all" / "z").read_text() == "deep/er/z"
    assert (tmp_path / "code" / "self").resolve() == tmp_path / "code"


def test_a_link_up_from_a_linked_folder_is_sent_as_the_kernel_follows_it(tmp_path: Path) -> None:
    folder = tmp_path / "code"
    fill(folder, "deep/er/x", "deep/y", "y")
    fill(tmp_path, "z")
    (folder / "way").symlink_to("deep/er")
    (folder / "here").symlink_to(".")
    (folder / "link").symlink_to("way/../y")
    assert {one.name: one.linkname for one in members_of(folder) if one.issym()}["link"] == "deep/y"
    (folder / "link").unlink()
    (folder / "link").symlink_to("here/../z")
    with pytest.raises(RefusedError, match=r"leaves the folder, to here/\.\./z"):
        pack(folder, "code")


@pytest.mark.feature("X5")
@pytest.mark.parametrize("target", ["/etc/passwd", "../outside", "deep/../../outside", "chain"])
def test_a_link_that_leaves_the_folder_is_refused(tmp_path: Path, target: str) -> None:
    folder = tmp_path / "code"
    fill(folder, "deep/x")
    fill(tmp_path, "outside")
    (folder / "deep" / "chain").symlink_to(tmp_path)
    (folder / ".amlignore").write_text("deep/chain\n")
    (folder / "link").symlink_to("deep/chain" if target == "chain" else target)
    with pytest.raises(RefusedError, match="leaves the folder") as refused:
        pack(folder, "code")
    assert "link" in refused.value.where
    assert refused.value.fix.endswith("or leave the link out. " + LEAVE_OUT)
    (folder / ".amlignore").write_text("deep/chain\nlink\n")
    pack(folder, "code").file.close()


def test_socket_or_pipe_is_refused_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX) as plug:
        plug.bind("plug")
        with pytest.raises(RefusedError, match="plug"):
            pack(tmp_path, "code")
    (tmp_path / "plug").unlink()
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(RefusedError, match=r"pipe.*amlignore"):
        pack(tmp_path, "code")


def test_too_much_names_the_biggest(tmp_path: Path) -> None:
    for n in range(5):
        (tmp_path / f"f{n}").write_bytes(b"x" * (n << 20))
    with pytest.raises(RefusedError, match=r"f4 \(4\.0 MiB\), f3 \(3\.0 MiB\), f2"):
        pack(tmp_path, "code", most=9 << 20)
    pack(tmp_path, "code", most=10 << 20).file.close()


def test_single_file_is_a_snapshot(tmp_path: Path) -> None:
    fill(tmp_path, "data.csv", "other")
    assert names_of(tmp_path / "data.csv") == ["data.csv"]


def test_missing_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RefusedError, match="no such folder"):
        pack(tmp_path / "none", "code")


def test_names_of_any_bytes_are_packed(tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(b"odd\xff")).write_text("x")
    (tmp_path / "new\nline").write_text("x")
    assert len(names_of(tmp_path)) == 2


@pytest.mark.feature("D2")
def test_data_is_sent_in_full_despite_ignore_files(tmp_path: Path) -> None:
    fill(tmp_path, "a.csv", "deep/b.csv", "__pycache__/c")
    (tmp_path / ".gitignore").write_text("*\n")
    there = {member.name for member in members_of(tmp_path, is_data=True) if member.isfile()}
    assert there == {".gitignore", "a.csv", "deep/b.csv", "__pycache__/c"}


def test_data_too_big_or_with_outside_links_is_refused_with_datastores_as_fix(tmp_path: Path) -> None:
    (tmp_path / "big").write_bytes(b"x" * (2 << 20))
    with pytest.raises(RefusedError, match="With `datastore: NAME` beside its path it is uploaded there"):
        pack(tmp_path, "inputs.a.path", most=1 << 20, is_data=True)
    (tmp_path / "link").symlink_to("/etc/passwd")
    with pytest.raises(RefusedError, match=r"leaves the folder, to /etc/passwd.* and links are followed"):
        pack(tmp_path, "inputs.a.path", is_data=True)


# --- several folders ----------------------------------------------------------------------------------------------
def contents_of(code: Path | None, *added: Path) -> dict[str, str]:
    """What a node has of code and what is added to it: the text of files, the target of links."""
    packed = pack(code, "code", added=added)
    with closing(packed.file):
        packed.file.seek(0)
        with tarfile.open(fileobj=packed.file) as tar:
            files = [(one, tar.extractfile(one) if one.isreg() else None) for one in tar.getmembers()]
            return {one.name: file.read().decode() if file else one.linkname for one, file in files}


def test_added_folders_are_merged_and_added_files_replace_those_of_the_code(tmp_path: Path) -> None:
    code, shared, other = tmp_path / "code", tmp_path / "lib/shared", tmp_path / "lib/config.yml"
    fill(code, "main.py", "config.yml", "shared/own.py", "shared/both.py")
    fill(tmp_path / "lib", "shared/both.py", "shared/deep/x.py", "config.yml")
    (shared / "both.py").write_text("of lib")
    other.write_text("of lib")
    assert contents_of(code, shared, other) == {
        "config.yml": "of lib", "main.py": "main.py", "shared": "", "shared/both.py": "of lib", "shared/deep": "",
        "shared/deep/x.py": "shared/deep/x.py", "shared/own.py": "shared/own.py",
    }  # fmt: skip
    assert [*contents_of(None, other)] == ["config.yml"]
    assert [*contents_of(code / "main.py", other)] == ["config.yml", "main.py"]


def test_rules_of_the_code_and_of_added_folders_keep_files_out_of_both(tmp_path: Path) -> None:
    code, shared = tmp_path / "code", tmp_path / "shared"
    fill(code, "a.py", "data/big.bin", ".git/config")
    fill(shared, "b.py", "b.csv", "b.log", ".git/config", "__pycache__/b.pyc")
    (code / ".gitignore").write_text("data/\n*.csv\n")
    (shared / ".gitignore").write_text("*.log\n")
    os.mkfifo(code / "data/pipe")
    assert [*contents_of(code, shared)] == [".gitignore", "a.py", "shared", "shared/.gitignore", "shared/b.py"]


def test_links_into_another_folder_that_is_sent_stay_links(tmp_path: Path) -> None:
    code, shared = tmp_path / "code", tmp_path / "lib/shared"
    fill(code, "a.py", "deep/b.py")
    fill(shared, "c.py", "deep/d.py")
    links = {
        code / "deep/own": str(code / "a.py"),
        code / "deep/other": str(shared / "deep/d.py"),
        code / "to shared": "../lib/shared",
        code / "shared": "../lib/shared",
        shared / "deep/back": "../../../code/deep/b.py",
        shared / "deep/as sent": "../../a.py",
    }
    for link, target in links.items():
        link.symlink_to(target)
    sent = contents_of(code, shared)
    assert {name: sent[name] for name in sent if name.split("/")[-1] in {one.name for one in links}} == {
        "deep/own": "../a.py", "deep/other": "../shared/deep/d.py", "to shared": "shared", "shared": "",
        "shared/deep/back": "../../deep/b.py", "shared/deep/as sent": "../../a.py",
    }  # fmt: skip
    packed = pack(code, "code", added=[shared])
    with closing(packed.file):
        packed.file.seek(0)
        unpack(packed.file, packed.digest, str(tmp_path / "node"))  # pyright: ignore[reportArgumentType]
    assert {(tmp_path / "node" / name).resolve().is_file() for name in ("deep/own", "shared/deep/as sent")} == {True}


@pytest.mark.parametrize("target", ["../../secret", "/etc/passwd", "deep/../../../secret", "../../code/../secret"])
def test_a_link_that_leaves_all_folders_is_refused(tmp_path: Path, target: str) -> None:
    fill(tmp_path, "code/a.py", "lib/shared/deep/b.py", "secret")
    (tmp_path / "lib/shared/link").symlink_to(target)
    with pytest.raises(RefusedError, match="this link leaves the folder"):
        contents_of(tmp_path / "code", tmp_path / "lib/shared")


@pytest.mark.parametrize(("below", "above"), [("x/a.py", "x"), ("x", "x/a.py")])
def test_a_file_and_a_folder_of_one_name_are_refused(tmp_path: Path, below: str, above: str) -> None:
    fill(tmp_path, f"code/{below}", f"lib/{above}")
    with pytest.raises(RefusedError) as refused:
        contents_of(tmp_path / "code", tmp_path / "lib/x")
    assert refused.value.what == (
        f"{tmp_path}/code/x and {tmp_path}/lib/x would both be x, and one of them is no folder"
    )

"""Files that ranks save: which are whole by their format, which get copies, and what is put back. No process dies."""

from __future__ import annotations

import errno
import json
import os
import pickle
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from drumbeat.node.torn_files import copies as file_copies
from drumbeat.node.torn_files.copies import FileCopies, TornFiles
from drumbeat.node.torn_files.formats import Content, content
from drumbeat.node.torn_files.saved_files import saved_files, series

pytestmark = pytest.mark.feature("T5")


def archive(path: Path, text: str) -> bytes:
    """Writes a small archive like those of `torch.save`."""
    with zipfile.ZipFile(path, "w") as made:
        made.writestr("last/data.pkl", text)
        made.writestr("last/data/0", text * 9)
        made.writestr("last/.data/serialization_id", "7")
    return path.read_bytes()


def tensors(path: Path) -> bytes:
    """Writes a file of the format safetensors."""
    header = json.dumps({"__metadata__": {}, "w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}).encode()
    path.write_bytes(len(header).to_bytes(8, "little") + header + bytes(8))
    return path.read_bytes()


def unheard(path: str, why: str) -> None:
    """Takes what a user should know of a file without a copy."""


def seen(folder: Path, limit: int = 1 << 30) -> tuple[FileCopies, list[str]]:
    """Returns the copies of a folder after two looks, and what was said."""
    said: list[str] = []
    made = FileCopies(str(folder), limit, lambda path, why: said.append(f"{path}: {why}"))
    for _ in range(2):
        made.look(lambda: False)
    return made, said


def copies(folder: Path) -> list[str]:
    return sorted(saved_files(f"{folder}/.last-good/files"))


@pytest.fixture(autouse=True)
def _copies_folder(tmp_path: Path):
    (tmp_path / ".last-good").mkdir()


@pytest.mark.parametrize("make", [partial(archive, text="x"), tensors], ids=["zip", "safetensors"])
def test_file_that_lacks_any_number_of_its_last_bytes_is_torn(tmp_path: Path, make: Callable[[Path], bytes]):
    path = tmp_path / "model.safetensors"
    whole = make(path)
    assert content(str(path)) is Content.WHOLE
    for length in range(4, len(whole)):
        path.write_bytes(whole[:length])
        assert content(str(path)) is Content.TORN, length


def test_torn_file_is_restored_wherever_it_was_cut(tmp_path: Path):
    for name, before, after in (
        ("last.pt", archive(tmp_path / "a", "old"), archive(tmp_path / "a", "newer")),
        ("w.safetensors", tensors(tmp_path / "a"), tensors(tmp_path / "a")),
    ):
        path = tmp_path / name
        path.write_bytes(before)
        made, _ = seen(tmp_path)
        for length in (0, 1, 2, 3, 4, 7, len(after) - 1):
            path.write_bytes(after[:length])
            assert len(TornFiles(str(tmp_path)).restore()) == 1, (name, length)
            assert path.read_bytes() == before
            for _ in range(2):
                made.look(lambda: False)
        path.write_bytes(after)
        assert TornFiles(str(tmp_path)).restore() == []
        assert path.read_bytes() == after
        path.unlink()


def test_archive_whose_pickling_failed_is_torn(tmp_path: Path):
    with zipfile.ZipFile(tmp_path / "last.pt", "w") as made:
        made.writestr("last/.data/serialization_id", "7")
    assert content(str(tmp_path / "last.pt")) is Content.TORN


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("shard.distcp", b"PK\x03\x04 and more"),
        ("old.pt", b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."),
        ("state.pkl", pickle.dumps([1, 2])),
        ("deep.json", b"[" * 9_999),
        ("train.log", b"step 1\nstep"),
        ("go", b""),
        ("lines.json", b'{"step": 1}\n{"step": 2}\n'),
        ("model.h5", b"\x89HDF\r\n\x1a\n"),
    ],
)
def test_file_whose_format_does_not_tell_stays(tmp_path: Path, name: str, data: bytes):
    (tmp_path / name).write_bytes(data)
    seen(tmp_path)
    (tmp_path / name).write_bytes(data + b"x")
    assert TornFiles(str(tmp_path)).restore() == []
    assert (tmp_path / name).read_bytes() == data + b"x"


@pytest.mark.parametrize("length", [0, 3, 99])
def test_file_of_another_format_than_before_stays(tmp_path: Path, length: int):
    path = tmp_path / "state"
    archive(path, "old")
    made, _ = seen(tmp_path)
    path.write_bytes(b"x" * 200)
    for _ in range(2):
        made.look(lambda: False)
    assert copies(tmp_path) == []
    path.write_bytes(b"x" * length)
    assert TornFiles(str(tmp_path)).restore() == []
    assert path.stat().st_size == length


def test_archives_that_torch_writes_without_a_pickle_at_the_top_are_whole(tmp_path: Path):
    for name, members in (
        ("exported.pt2", ("archive_format", "models/model.json", "data/weights/weight_0", "version")),
        ("package.pt", ("code.py", "res/model.pkl", ".data/extern_modules", "version")),
    ):
        with zipfile.ZipFile(tmp_path / name, "w") as made:
            for member in (*members, ".data/serialization_id", "byteorder"):
                made.writestr(f"any/{member}", "x")
        assert content(str(tmp_path / name)) is Content.WHOLE


def test_file_that_can_not_be_read_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "last.pt"
    archive(path, "old")
    made, _ = seen(tmp_path)
    archive(path, "newer")

    def stale(_path: str) -> Content:
        raise OSError(errno.ESTALE, "Stale file handle")

    monkeypatch.setattr(file_copies, "content", stale)
    for _ in range(2):
        made.look(lambda: False)
    assert copies(tmp_path) == ["last.pt"]
    assert TornFiles(str(tmp_path)).restore() == []
    assert b"newer" in path.read_bytes()


def test_torn_file_does_not_take_the_place_of_its_copy_while_other_ranks_go_on(tmp_path: Path):
    path = tmp_path / "last.pt"
    whole = archive(path, "old")
    made, _ = seen(tmp_path)
    for length in (0, 2, 3, 60):
        path.write_bytes(whole[:length])
        for _ in range(3):
            made.look(lambda: False)
    assert len(TornFiles(str(tmp_path)).restore()) == 1
    assert path.read_bytes() == whole


def test_unrestorable_file_is_reported_and_the_others_restored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for name in ("a.pt", "b.pt"):
        archive(tmp_path / name, "old")
    seen(tmp_path)
    for name in ("a.pt", "b.pt"):
        (tmp_path / name).write_bytes(b"PK\x03\x04")
    replace = os.replace

    def refuses(source: str, target: str) -> None:
        if target.endswith("a.pt"):
            raise PermissionError(errno.EACCES, "Permission denied")
        replace(source, target)

    monkeypatch.setattr(os, "replace", refuses)
    first, second = TornFiles(str(tmp_path)).restore()
    assert first.startswith("a.pt is the start of an interrupted save, and can't be restored: [Errno 13]")
    assert second.startswith("b.pt (4 bytes) is the start of an interrupted save; it was restored")


def test_close_keeps_copies_that_the_next_attempt_needs(tmp_path: Path):
    path = tmp_path / "last.pt"
    whole = archive(path, "old")
    seen(tmp_path)
    path.write_bytes(whole[:50])
    TornFiles(str(tmp_path)).close()
    assert path.read_bytes() == whole[:50]
    assert len(TornFiles(str(tmp_path)).restore()) == 1
    assert path.read_bytes() == whole


def test_close_leaves_the_copies_of_an_agent_that_makes_them_now(tmp_path: Path):
    archive(tmp_path / "last.pt", "old")
    seen(tmp_path)
    lock = FileCopies(str(tmp_path), 1, unheard).hold()
    assert lock is not None
    TornFiles(str(tmp_path)).close()
    assert copies(tmp_path) == ["last.pt"]
    os.close(lock)


def test_torn_file_without_a_copy_is_put_aside_and_stays_there(tmp_path: Path):
    path = tmp_path / "ckpt" / "epoch-7.pt"
    path.parent.mkdir()
    path.write_bytes(archive(tmp_path / "a", "x")[:-9])
    (said,) = TornFiles(str(tmp_path)).restore()
    assert said.startswith("ckpt/epoch-7.pt (")
    assert said.endswith("is the start of an interrupted save; it has no earlier complete version, and was moved "
                         "to .last-good/aside")  # fmt: skip
    assert not path.exists()
    seen(tmp_path)
    assert TornFiles(str(tmp_path)).restore() == []
    TornFiles(str(tmp_path)).close()
    assert (tmp_path / ".last-good" / "aside" / "ckpt" / "epoch-7.pt").exists()


def test_copy_survives_that_its_file_is_written_in_place(tmp_path: Path):
    path = tmp_path / "last.pt"
    whole = archive(path, "old")
    made, _ = seen(tmp_path)
    path.write_bytes(b"")
    made.look(lambda: False)
    path.write_bytes(whole[:50])
    for _ in range(3):
        made.look(lambda: False)
    (said,) = TornFiles(str(tmp_path)).restore()
    assert said.startswith("last.pt (50 bytes) is the start of an interrupted save; it was restored as of 2")
    assert path.read_bytes() == whole
    TornFiles(str(tmp_path)).close()
    assert [one.name for one in tmp_path.iterdir()] == ["last.pt"]


def test_only_the_newest_file_of_a_series_has_a_copy(tmp_path: Path):
    made = FileCopies(str(tmp_path), 1 << 30, unheard)
    for epoch in range(4):
        for name in (f"epoch-{epoch}.pt", "last.pt", f"rank{epoch}.pt"):
            archive(tmp_path / name, str(epoch))
            os.utime(tmp_path / name, ns=(epoch * 10**11, epoch * 10**11))
        for _ in range(2):
            made.look(lambda: False)
        assert copies(tmp_path) == [
            f"epoch-{epoch}.pt", "last.pt", *(f"rank{number}.pt" for number in range(epoch + 1))
        ]  # fmt: skip


def test_names_that_are_written_again_each_keep_their_copy(tmp_path: Path):
    made = FileCopies(str(tmp_path), 1 << 30, unheard)
    for time_s, name in enumerate(("a-0.pt", "a-1.pt") * 3):
        archive(tmp_path / name, str(time_s))
        os.utime(tmp_path / name, ns=(time_s * 10**11, time_s * 10**11))
        for _ in range(2):
            made.look(lambda: False)
    archive(tmp_path / "a-1.pt", "new")
    made.look(lambda: False)
    made.look(lambda: False)
    assert "a-1.pt" in copies(tmp_path)


def test_files_that_were_written_together_each_have_a_copy(tmp_path: Path):
    names = sorted(
        [*(f"rng_state_{rank}.pth" for rank in range(3)), *(f"layer_0{layer}-states.pt" for layer in range(3))]
    )
    for name in names:
        archive(tmp_path / name, "x")
    seen(tmp_path)
    assert copies(tmp_path) == names


def test_file_that_was_not_looked_at_twice_has_no_copy(tmp_path: Path):
    archive(tmp_path / "last.pt", "x")
    made = FileCopies(str(tmp_path), 1 << 30, unheard)
    made.look(lambda: False)
    assert copies(tmp_path) == []
    (tmp_path / "last.pt").write_bytes((tmp_path / "last.pt").read_bytes()[:-1])
    made.look(lambda: False)
    made.look(lambda: False)
    assert copies(tmp_path) == []


def test_hidden_temporary_and_published_files_get_no_copies(tmp_path: Path):
    for name in (".lock", "last.pt.tmp", "tmp-checkpoint-5/a.pt", "step-000000000012/a.pt", "a.part", "kept/a.pt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        archive(tmp_path / name, "x")
    (tmp_path / "link.pt").symlink_to("a.part")
    seen(tmp_path)
    assert copies(tmp_path) == ["kept/a.pt"]


def test_copy_limit_is_respected_and_reported(tmp_path: Path):
    archive(tmp_path / "last.pt", "x" * 100)
    _, said = seen(tmp_path, limit=900)
    assert said == ["last.pt: with it, copies would take more than 900 bytes (drumbeat.checkpoints.copies_gib)"]
    assert copies(tmp_path) == []


def test_disk_that_is_almost_full_gets_no_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(file_copies, "_FREE_SHARE", 1 << 60)
    archive(tmp_path / "last.pt", "x")
    _, said = seen(tmp_path)
    assert said == ["last.pt: too little of the disk is free"]


def test_one_of_two_agents_makes_the_copies_and_removes_what_a_dead_one_left(tmp_path: Path):
    first, second = (FileCopies(str(tmp_path), 1, unheard) for _ in range(2))
    part = tmp_path / ".last-good" / "1234.part"
    part.touch()
    lock = first.hold()
    assert lock is not None
    assert second.hold() is None
    assert not part.exists()
    os.close(lock)


def test_series_is_a_name_without_its_numbers_but_those_of_ranks():
    assert series("checkpoint-500/model.pt") == series("checkpoint-1000/model.pt")
    assert series("epoch=3-step=120.ckpt") == "epoch=#-step=#.ckpt"
    assert series("model_rank_10.pt") != series("model_rank_11.pt")
    assert series("a-00001-of-00004.safetensors") == "a-00001-of-00004.safetensors"

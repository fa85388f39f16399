"""Files come whole or not at all, go on where they broke off, and stay inside the folder."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Self

import httpx
import pytest

from drumbeat.client import Client
from drumbeat.client.connection import Connection
from drumbeat.client.job_downloads import place_in
from drumbeat.model.errors import ConflictError, ForbiddenError, NotFoundError, UnreachableError

from .api_house import TOKEN, House, eventually, house_in

CONTENT = bytes(range(256)) * 8_000
SPARSE = b"begin" + bytes(3 << 20) + b"end"


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with house_in(tmp_path_factory.mktemp("house")) as there:
        job = there.submit("filed")
        there.agent(job).log(CONTENT, 0)
        there.agent(job).log(b"", 0, rank=1)
        there.agent(job).log(SPARSE, 0, rank=2)
        there.finish(job)
        # It is written a moment after the end.
        eventually(lambda: "story.jsonl" in [one.path for one in there.control.artifacts.files(job)])
        yield there


@pytest.fixture
def client(house: House) -> Iterator[Client]:
    with Client(home=house.home, url=house.url, token=TOKEN) as there:
        yield there


LOG = "logs/1.1/0/0.log"


def test_everything_comes_or_what_lies_under_a_path(client: Client, tmp_path: Path) -> None:
    places = client.download("filed", tmp_path / "all")
    assert {str(place.relative_to(tmp_path / "all")) for place in places} == {one.path for one in client.files("filed")}
    assert (tmp_path / "all" / LOG).read_bytes() == CONTENT
    assert client.download("filed", tmp_path / "some", under="logs/1.1/0/0") == [tmp_path / "some" / LOG]
    assert not list(tmp_path.rglob("*.part"))


@pytest.mark.parametrize("letter", ["x", "é", "☃"])
def test_a_name_may_be_as_long_as_the_disk_allows(client: Client, tmp_path: Path, letter: str) -> None:
    longest = letter * (255 // len(letter.encode()))
    client.fetch("filed", LOG, tmp_path / longest)
    assert [place.name for place in tmp_path.iterdir()] == [longest]


def test_broken_download_resumes(client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    streaming = Connection.streaming

    def breaking(self: Connection, path: str, **options: dict[str, str]) -> object:
        asked.append(options["headers"]["Range"])
        return _Breaking(streaming(self, path, **options)) if len(asked) < 3 else streaming(self, path, **options)

    monkeypatch.setattr(Connection, "streaming", breaking)
    seen: list[int] = []
    client.fetch("filed", LOG, tmp_path / "log", seen.append)
    assert (tmp_path / "log").read_bytes() == CONTENT
    assert sum(seen) == len(CONTENT)
    starts = [int(one.removeprefix("bytes=").split("-")[0]) for one in asked]
    assert starts == sorted(set(starts))
    assert starts[0] == 0 < starts[1]


def test_holes_of_a_file_stay_holes_and_do_not_come(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    streaming = Connection.streaming

    def counting(self: Connection, path: str, **options: dict[str, str]) -> object:
        asked.append(options["headers"]["Range"])
        return streaming(self, path, **options)

    monkeypatch.setattr(Connection, "streaming", counting)
    seen: list[int] = []
    client.fetch("filed", LOG.replace("0.log", "2.log"), tmp_path / "log", seen.append)
    assert (tmp_path / "log").read_bytes() == SPARSE
    assert (tmp_path / "log").stat().st_blocks * 512 < 1 << 20
    assert sum(seen) == len(SPARSE)
    first, *ranges = [one.removeprefix("bytes=").split("-") for one in asked]
    assert first == ["0", ""], "its headers name the hole, and its body isn't read"
    assert sum(int(end) - int(start) + 1 for start, end in ranges) < 1 << 20


class _Breaking:
    """An answer that breaks off after its first piece."""

    def __init__(self, answer: object) -> None:
        self.answer = answer

    def __enter__(self) -> Self:
        self.response = self.answer.__enter__()  # type: ignore[attr-defined]
        self.status_code, self.headers = self.response.status_code, self.response.headers
        return self

    def __exit__(self, *error: object) -> None:
        self.answer.__exit__(*error)  # type: ignore[attr-defined]

    def iter_bytes(self, size: int) -> Iterator[bytes]:
        yield next(self.response.iter_bytes(size // 4))
        raise httpx.ReadError("broke")


class _Changing(_Breaking):
    """An answer after whose first piece the file is another one, and which then breaks off if it is to."""

    def __init__(self, answer: object, change: Callable[[], None], *, is_breaking: bool) -> None:
        super().__init__(answer)
        self.change, self.is_breaking = change, is_breaking

    def iter_bytes(self, size: int) -> Iterator[bytes]:
        pieces = self.response.iter_bytes(size // 4)
        yield next(pieces)
        self.change()
        if self.is_breaking:
            raise httpx.ReadError("broke")
        yield from pieces


@pytest.fixture
def printed(house: House) -> Path:
    """A log that a rank still writes."""
    log = house.home / "jobs/filed/logs/1.1/0/8.log"
    log.write_bytes(CONTENT)
    return log


def changing(patch: pytest.MonkeyPatch, change: Callable[[], None], breaks: int) -> None:
    """The file changes in every answer, and the first `breaks` of them break off."""
    streaming, left = Connection.streaming, iter([True] * breaks)

    def streamed(self: Connection, path: str, **options: dict[str, str]) -> object:
        return _Changing(streaming(self, path, **options), change, is_breaking=next(left, False))

    patch.setattr(Connection, "streaming", streamed)


@pytest.mark.parametrize("breaks", [0, 1, 3])
def test_growing_log_is_downloaded_as_of_one_moment(
    client: Client, printed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, breaks: int
) -> None:
    def grow() -> None:
        with printed.open("ab") as file:
            file.write(b"more\n")

    send = Connection.send
    monkeypatch.setattr(Connection, "send", lambda self, *a, **o: (send(self, *a, **o), grow())[0])
    changing(monkeypatch, grow, breaks)
    seen: list[int] = []
    client.fetch("filed", "logs/1.1/0/8.log", tmp_path / "log", seen.append)
    got = (tmp_path / "log").read_bytes()
    assert got.startswith(CONTENT)
    assert printed.read_bytes().startswith(got)
    assert sum(seen) == len(got)
    assert [one.name for one in tmp_path.iterdir()] == ["log"]


def test_a_file_that_is_never_the_same_twice_is_given_up_without_a_trace(
    client: Client, printed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changing(monkeypatch, lambda: printed.write_bytes(os.urandom(1) + printed.read_bytes()), breaks=99)
    with pytest.raises(ConflictError, match="the file changed while it was brought"):
        client.fetch("filed", "logs/1.1/0/8.log", tmp_path / "log")
    assert list(tmp_path.iterdir()) == []


def test_partial_file_of_another_version_is_removed_after_a_full_download(
    client: Client, printed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("drumbeat.client.connection.TRIES", 1)
        changing(patch, lambda: None, breaks=99)
        with pytest.raises(UnreachableError):
            client.download("filed", tmp_path, under="logs/1.1/0/8")
    assert [one.suffix for one in tmp_path.rglob("*.*") if one.is_file()] == [".part"]
    printed.write_bytes(b"another")
    (place,) = client.download("filed", tmp_path, under="logs/1.1/0/8")
    assert place.read_bytes() == b"another"
    assert list(place.parent.iterdir()) == [place]


def test_later_download_resumes_a_broken_one(client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    streaming = Connection.streaming
    with monkeypatch.context() as patch:
        patch.setattr("drumbeat.client.connection.TRIES", 1)
        patch.setattr(Connection, "streaming", lambda self, path, **o: _Breaking(streaming(self, path, **o)))
        with pytest.raises(UnreachableError):
            client.fetch("filed", LOG, tmp_path / "log")
    assert not (tmp_path / "log").exists(), "a part is never shown as the whole"
    (partial,) = tmp_path.iterdir()
    had = partial.stat().st_size
    seen: list[int] = []
    client.fetch("filed", LOG, tmp_path / "log", seen.append)
    assert seen[0] == had > 0
    assert (tmp_path / "log").read_bytes() == CONTENT


def test_empty_file_is_downloaded_and_missing_one_refused(client: Client, house: House, tmp_path: Path) -> None:
    (house.home / "jobs/filed/logs/1.1/0/9.log").touch()
    client.fetch("filed", "logs/1.1/0/9.log", tmp_path / "empty")
    assert (tmp_path / "empty").read_bytes() == b""
    with pytest.raises(NotFoundError):
        client.fetch("filed", "logs/none", tmp_path / "none")


def test_a_download_replaces_a_file_not_what_a_link_points_to(client: Client, tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")
    (tmp_path / "log").symlink_to(tmp_path / "mine")
    client.fetch("filed", LOG, tmp_path / "log")
    assert (tmp_path / "mine").read_text() == "mine"
    assert (tmp_path / "log").read_bytes() == CONTENT


@pytest.mark.feature("X5")
@pytest.mark.parametrize("path", ["", "/etc/x", "../x", "a/../../x", "..", "a/..", "a\0b", "out/x", "out/deep/x"])
def test_no_path_of_a_server_leads_out_of_the_folder(tmp_path: Path, path: str) -> None:
    (tmp_path / "to").mkdir()
    (tmp_path / "to" / "out").symlink_to(tmp_path)
    with pytest.raises(ForbiddenError):
        place_in(tmp_path / "to", path)


@pytest.mark.feature("X5")
def test_a_hostile_server_overwrites_nothing(client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from drumbeat.model.api.jobs import FileView

    monkeypatch.setattr(client, "files", lambda _: [FileView("plan.json", 1), FileView("../outside", 1)])
    with pytest.raises(ForbiddenError):
        client.download("filed", tmp_path / "to")
    assert not (tmp_path / "to").exists()

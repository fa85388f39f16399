"""Logs and files of a job, as a user gets them in a terminal."""

from pathlib import Path

import pytest

from tests.unit.cli.fake_server import FakeServer, Type
from tests.unit.cli.samples import a_job, after, piece


# --- logs -------------------------------------------------------------------------------------------------------
@pytest.fixture
def logged(server: FakeServer) -> FakeServer:
    server.jobs["mnist-7f3a"] = a_job()
    pieces = [("start\n", 0, 1), ("start\n", 3, 1), ("boom \x1b[2J\n", 3, 1), ("again\n", 0, 2)]
    server.events = [piece(text, rank, round_=round_) for text, rank, round_ in pieces]
    return server


@pytest.mark.feature("M1")
@pytest.mark.parametrize(
    ("options", "lines"),
    [
        ((), ["0:0 │ start", "1:3 │ start", "1:3 │ boom \\x1b[2J", "── attempt 1, round 2 ──", "0:0 │ again"]),
        (("-f",), ["0:0 │ start", "1:3 │ start", "1:3 │ boom \\x1b[2J", "── attempt 1, round 2 ──", "0:0 │ again"]),
        (("--rank", 3), ["1:3 │ start", "1:3 │ boom \\x1b[2J"]),
        (("--node", 0, "--round", "1.1"), ["0:0 │ start"]),
        (("--round", "1.1", "--collapse"), ["0:0,1:3 ×2 │ start", "1:3 │ boom \\x1b[2J"]),
        (("--raw", "--rank", 3), ["start", "boom \x1b[2J"]),
    ],
)
def test_logs(drumbeat: Type, logged: FakeServer, options: tuple[object, ...], lines: list[str]):
    shown = drumbeat("logs", "mnist", *options)
    assert shown.stdout.splitlines() == lines
    assert shown.exit_code == 0


@pytest.mark.parametrize("follow", [(), ("-f",)])
def test_raw_of_one_rank_is_its_text_as_it_comes(drumbeat: Type, server: FakeServer, follow: tuple[str, ...]):
    server.jobs["mnist-7f3a"] = a_job()
    server.events = [piece("name? ", 3), piece("other", 0), piece("\x1b[1m  0%\r100%", 3)]
    assert drumbeat("logs", "mnist", "--raw", "--rank", 3, *follow).output == "name? \x1b[1m  0%\r100%"


@pytest.mark.parametrize(
    ("option", "said"),
    [
        (("--rank", 4), "error: the job has no rank 4\n  at mnist-7f3a\n  → It has ranks 0 to 3.\n"),
        (("--node", 2), "error: the job has no node 2\n  at mnist-7f3a\n  → It has nodes 0 to 1.\n"),
    ],
)
def test_missing_rank_or_node_is_refused(drumbeat: Type, logged: FakeServer, option: tuple[object, ...], said: str):
    assert drumbeat("logs", "mnist", *option).stderr == said


def test_a_round_that_is_none_is_refused(drumbeat: Type, logged: FakeServer):
    shown = drumbeat("logs", "mnist", "--round", "two")
    assert shown.exit_code == 2
    assert "isn't an attempt and a round, as 1.2" in shown.stderr


def test_a_round_that_an_ended_job_never_came_to(drumbeat: Type, logged: FakeServer):
    logged.jobs["mnist-7f3a"] = a_job(state="completed", attempt=1, round=2, ended_at=after(9))
    assert drumbeat("logs", "mnist", "--round", "1.2").exit_code == 0
    shown = drumbeat("logs", "mnist", "--round", "1.3")
    assert shown.stderr == "error: the job has no round 1.3\n  at mnist-7f3a\n  → Its last is 1.2; it has ended.\n"
    assert shown.exit_code == 1


# --- download -----------------------------------------------------------------------------------------------------
FILES = {
    "outputs/model/m.pt": b"weights",
    "outputs/default/x": b"x",
    "outputs/weights": b"of a uri_file",
    "outputs/weights2/m.pt": b"more",
    "logs/1.1/0/0.log": b"start\n",
    "plan.json": b"{}",
}


@pytest.mark.parametrize(
    ("options", "paths"),
    [
        ((), set(FILES)),
        (("--outputs", "model"), {"outputs/model/m.pt"}),
        (("--outputs", "weights"), {"outputs/weights"}),
        (("--logs",), {"logs/1.1/0/0.log"}),
    ],
)
def test_download(drumbeat: Type, server: FakeServer, tmp_path: Path, options: tuple[str, ...], paths: set[str]):
    server.jobs["mnist-7f3a"], server.contents = a_job(), FILES
    shown = drumbeat("download", "mnist", "--to", "here", *options)
    assert shown.exit_code == 0
    assert shown.stdout.endswith(f"in {tmp_path / 'here'}\n")
    found = {
        each.relative_to(tmp_path / "here").as_posix() for each in (tmp_path / "here").rglob("*") if each.is_file()
    }
    assert found == paths
    assert all((tmp_path / "here" / path).read_bytes() == FILES[path] for path in paths)


def test_download_of_an_output_that_is_none_names_those_there_are(drumbeat: Type, server: FakeServer):
    server.jobs["mnist-7f3a"], server.contents = a_job(), FILES
    shown = drumbeat("download", "mnist", "--outputs", "modle")
    outputs = "Its outputs: default, model, weights, weights2."
    assert shown.stderr == f"error: the job has no files in output 'modle'\n  → {outputs}\n"


@pytest.mark.parametrize(
    ("word", "says"),
    [
        ("./here", "If it is the folder to bring the files to: drumbeat download mnist --to ./here"),
        ("my models", "drumbeat download mnist --to 'my models'"),
        ("model", "Only this output: drumbeat download mnist --outputs model"),
    ],
)
def test_download_with_a_word_too_many_says_which_option_it_belongs_to(
    drumbeat: Type, server: FakeServer, tmp_path: Path, word: str, says: str
):
    server.jobs["mnist-7f3a"], server.contents = a_job(), FILES
    shown = drumbeat("download", "mnist", word)
    assert (shown.exit_code, list(tmp_path.glob("here"))) == (2, [])
    assert says in shown.stderr
    assert "misplaced" not in drumbeat("download", "--help").stdout


def test_download_into_a_file_names_it(drumbeat: Type, server: FakeServer, tmp_path: Path):
    server.jobs["mnist-7f3a"], server.contents = a_job(), FILES
    (tmp_path / "fl").write_text("mine")
    for to in ("fl", "fl/below"):
        shown = drumbeat("download", "mnist", "--to", to)
        told = "error: this is a file, not a folder\n  at fl\n  → Name a folder to bring the files to.\n"
        assert (shown.exit_code, shown.stderr) == (1, told)


@pytest.mark.feature("X5")
@pytest.mark.parametrize("path", ["../evil", "/etc/evil", "outputs/../../evil"])
def test_a_hostile_server_cannot_write_elsewhere(drumbeat: Type, server: FakeServer, tmp_path: Path, path: str):
    server.jobs["mnist-7f3a"], server.contents = a_job(), {path: b"evil"}
    shown = drumbeat("download", "mnist", "--to", "here")
    assert shown.exit_code == 1
    assert "outside of the job's folder" in shown.stderr
    assert not list(tmp_path.rglob("*evil*"))

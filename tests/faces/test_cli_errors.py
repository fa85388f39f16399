"""Failures as a user reads them, and their exit codes."""

from pathlib import Path

import pytest

from drumbeat.model.errors import Problem, RefusedError, SpecError, UnreachableError
from tests.unit.cli.fake_server import FakeServer, Type
from tests.unit.cli.samples import a_job


def test_every_problem_of_a_job_file_is_listed(drumbeat: Type, server: FakeServer):
    server.error = SpecError.from_problems(
        [
            Problem("unknown key `comand`", "job.yml:3:1", "The nearest is `command`."),
            Problem("`instance_count` is 0", "job.yml:9:19"),
        ]
    )
    shown = drumbeat("plan", "job.yml")
    assert shown.exit_code == 2
    assert shown.stderr == (
        "error: unknown key `comand`\n  at job.yml:3:1\n  → The nearest is `command`.\n"
        "error: `instance_count` is 0\n  at job.yml:9:19\n"
        "2 problems; nothing has been started.\n"
    )


@pytest.mark.parametrize(
    ("error", "code"),
    [(RefusedError("no"), 1), (UnreachableError("no server answers", where="http://x"), 4), (SpecError("bad"), 2)],
)
def test_exit_codes(drumbeat: Type, server: FakeServer, error: RefusedError, code: int):
    server.error = error
    shown = drumbeat("list")
    assert shown.exit_code == code
    assert shown.stderr.startswith(f"error: {error.what}\n")


def test_a_fault_of_drumbeat_shows_no_traceback_unless_asked(drumbeat: Type, server: FakeServer):
    server.error = KeyError("jobs")  # pyright: ignore[reportAttributeAccessIssue]
    shown = drumbeat("list")
    assert shown.exit_code == 1
    assert shown.stderr == (
        "error: internal error in drumbeat: KeyError: 'jobs'\n"
        "  → Run it again as `drumbeat --debug …`, and report what that prints.\n"
    )
    assert "Traceback" in drumbeat("--debug", "list").stderr


def test_a_folder_that_cannot_be_written_is_named(drumbeat: Type, server: FakeServer, tmp_path: Path):
    server.jobs["mnist-7f3a"], server.contents = a_job(), {"plan.json": b"{}"}
    (tmp_path / "here").write_text("a file")
    shown = drumbeat("download", "mnist", "--to", "here")
    assert shown.exit_code == 1
    assert shown.stderr.startswith("error: ")
    assert str(Path("here")) in shown.stderr


def test_a_word_that_is_no_command_names_the_nearest(drumbeat: Type):
    shown = drumbeat("lits")
    assert shown.exit_code == 2
    assert "list" in shown.stderr

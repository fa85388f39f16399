"""What every place for files promises: the docstrings of `FolderArtifacts`.

A test module subclasses `ArtifactsContract` and gives the fixture `open_artifacts`; each call opens the same data.
The promises of logs are in `log_contract`, those of outputs in `output_contract`.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from drumbeat.model.errors import ConflictError, ForbiddenError, NotFoundError
from drumbeat.model.logs import LogName
from drumbeat.server.home_folder import FolderArtifacts
from tests.support.artifacts_access import HOSTILE, LOG, Open, contents, give, sha
from tests.support.log_contract import LogContract
from tests.support.output_contract import OutputContract


class ArtifactsContract(LogContract, OutputContract):
    """Snapshots, removals, small files, and the walls around them; logs and outputs, too."""

    # --- snapshots ---
    def test_a_snapshot_is_kept_whole(self, artifacts: FolderArtifacts, open_artifacts: Open) -> None:
        digest = sha(b"tar" * 1000)
        assert not artifacts.has_snapshot(digest)
        for _ in range(2):
            artifacts.add_snapshot(digest, [b"tar"] * 1000)
            assert artifacts.has_snapshot(digest)
        with open_artifacts().open_snapshot(digest) as file:
            assert file.read() == b"tar" * 1000

    def test_nothing_is_kept_of_other_bytes(self, artifacts: FolderArtifacts) -> None:
        with pytest.raises(ConflictError):
            artifacts.add_snapshot(sha(b"whole"), [b"who"])
        assert not artifacts.has_snapshot(sha(b"whole"))
        with pytest.raises(NotFoundError):
            artifacts.open_snapshot(sha(b"whole"))

    @pytest.mark.parametrize("error", [ConnectionResetError, RuntimeError])
    def test_nothing_is_kept_when_the_sender_vanishes(self, artifacts: FolderArtifacts, error: type[Exception]) -> None:
        def pieces() -> Iterator[bytes]:
            yield b"wh"
            raise error("the sender is gone")

        with pytest.raises((ConflictError, RuntimeError), match="sender is gone"):
            artifacts.add_snapshot(sha(b"whole"), pieces())
        assert not artifacts.has_snapshot(sha(b"whole"))

    @pytest.mark.parametrize("digest", ["", "..", "a" * 63, "A" * 64, "../" + "a" * 61, "a" * 64 + "\n"])
    def test_a_snapshot_is_named_by_a_digest(self, artifacts: FolderArtifacts, digest: str) -> None:
        for use in (
            lambda: artifacts.has_snapshot(digest),
            lambda: artifacts.open_snapshot(digest),
            lambda: artifacts.add_snapshot(digest, []),
        ):
            with pytest.raises(ForbiddenError):
                use()

    # --- removing ---
    def test_removed_job_has_no_file_and_others_keep_theirs(
        self, artifacts: FolderArtifacts, open_artifacts: Open
    ) -> None:
        for job in ("a", "ab"):
            artifacts.append_log(job, LOG, 0, b"line\n")
            artifacts.write_text(job, "plan.json", "{}")
        for _ in range(2):
            artifacts.set_aside_job("a")
            assert (open_artifacts().files("a"), artifacts.log_end("a")) == ([], 0)
            artifacts.remove_job("a")
        assert [file.path for file in artifacts.files("ab")] == [LOG, "plan.json", "user_logs/std_log_0.txt"]
        assert set(artifacts.job_space()) == {"ab"}

    def test_job_of_a_removed_name_begins_with_empty_logs(
        self, artifacts: FolderArtifacts, open_artifacts: Open
    ) -> None:
        other = open_artifacts()
        for store in (artifacts, other):
            store.append_log("a", LOG, 0, b"first job, a long line\n")
        artifacts.set_aside_job("a")
        artifacts.write_text("a", "plan.json", "{}")
        assert artifacts.append_log("a", LogName(1, 1, 1, 0).path, 0, b"new\n") == 4
        assert other.append_log("a", LogName(1, 1, 0, 1).path, 0, b"newer\n") == 6
        assert [chunk.data for chunk in open_artifacts().log_chunks("a")] == [b"new\n", b"newer\n"]

    def test_job_of_a_removed_name_writes_a_log_of_the_same_name_at_once(self, artifacts: FolderArtifacts) -> None:
        for text in (b"first job, a long line\n", b"new\n"):
            assert artifacts.append_log("a", LOG, 0, text) == len(text)
            assert [chunk.data for chunk in artifacts.log_chunks("a")] == [text]
            artifacts.set_aside_job("a")

    def test_removing_the_files_that_were_set_aside_leaves_those_of_a_new_job(self, artifacts: FolderArtifacts) -> None:
        for text in (b"first job\n", b"new\n"):
            artifacts.append_log("a", LOG, 0, text)
            if text != b"new\n":
                artifacts.set_aside_job("a")
        artifacts.remove_job("a")
        assert [chunk.data for chunk in artifacts.log_chunks("a")] == [b"new\n"]

    def test_removing_logs_leaves_outputs_plan_and_story(self, artifacts: FolderArtifacts) -> None:
        artifacts.append_log("a", LOG, 0, b"line\n")
        artifacts.append_output("a", 1, 0, "default/model.bin", 0, b"weights")
        assert not artifacts.commit_outputs("a", 1, 0, {"default/model.bin": (7, sha(b"weights"))})
        for name in ("plan.json", "story.jsonl"):
            artifacts.write_text("a", name, "{}")
        for _ in range(2):
            artifacts.remove_logs("a")
            assert [file.path for file in artifacts.files("a")] == [
                "outputs/default/model.bin", "plan.json", "story.jsonl",
            ]  # fmt: skip
            assert artifacts.log_chunks("a") == []
        space = artifacts.job_space()["a"]
        assert space.outputs > 0
        assert (space.logs, space.checkpoints) == (0, 0)

    def test_space_of_a_job_is_counted_by_kind(self, artifacts: FolderArtifacts) -> None:
        assert artifacts.job_space() == {}
        artifacts.append_log("a", LOG, 0, b"x" * 100_000)
        space = artifacts.job_space()["a"]
        assert space.logs >= 100_000
        assert (space.outputs, space.checkpoints) == (0, 0)
        assert space.total == space.logs + space.other

    @pytest.mark.parametrize("job", HOSTILE)
    def test_removing_a_job_of_a_hostile_name_is_refused(self, artifacts: FolderArtifacts, job: str) -> None:
        for call in (artifacts.set_aside_job, artifacts.remove_job, artifacts.remove_logs):
            with pytest.raises(ForbiddenError):
                call(job)

    def test_snapshot_asked_for_lately_is_not_removed(self, artifacts: FolderArtifacts) -> None:
        digest = sha(b"code")
        artifacts.add_snapshot(digest, [b"code"])
        (kept,) = artifacts.snapshots()
        assert (kept.digest, kept.size > 0) == (digest, True)
        assert not artifacts.remove_snapshot(digest, unasked_since=kept.asked_at - 1)
        assert artifacts.has_snapshot(digest)
        (asked,) = artifacts.snapshots()
        assert asked.asked_at >= kept.asked_at
        for _ in range(2):
            assert artifacts.remove_snapshot(digest, unasked_since=asked.asked_at + 1)
        assert (artifacts.has_snapshot(digest), artifacts.snapshots()) == (False, [])

    # --- files ---
    def test_small_files_are_replaced_whole(self, artifacts: FolderArtifacts) -> None:
        for content in ("a long first text", "kürzer", ""):
            artifacts.write_text("a", "plan.json", content)
            assert contents(artifacts, "a") == {"plan.json": content.encode()}

    def test_a_kept_text_stays_what_it_was_first(self, artifacts: FolderArtifacts) -> None:
        assert artifacts.keep_text("a", "inputs/x.json", "first") == "first"
        assert artifacts.keep_text("a", "inputs/x.json", "second") == "first"
        assert contents(artifacts, "a") == {"inputs/x.json": b"first"}

    def test_files_are_listed_by_path(self, artifacts: FolderArtifacts) -> None:
        artifacts.write_text("a", "story.jsonl", "s")
        artifacts.write_text("a", "plan.json", "{}")
        give(artifacts, 1, 0, {"default/m": b"m"})
        for attempt_and_round in ((1, 9), (1, 10)):
            artifacts.append_log("a", LogName(*attempt_and_round, 0, 0).path, 0, b"%d.%d" % attempt_and_round)
            artifacts.append_log("a", LogName(*attempt_and_round, 0, 1).path, 0, b"other")
        assert list(contents(artifacts, "a").items()) == [
            ("logs/1.10/0/0.log", b"1.10"),
            ("logs/1.10/0/1.log", b"other"),
            ("logs/1.9/0/0.log", b"1.9"),
            ("logs/1.9/0/1.log", b"other"),
            ("outputs/default/m", b"m"),
            ("plan.json", b"{}"),
            ("story.jsonl", b"s"),
            ("user_logs/std_log_0.txt", b"1.10"),
        ]
        assert artifacts.files("b") == []

    @pytest.mark.parametrize(
        "path", ["nothing", "outputs/m", "outputs", "logs", "logs/1.1", ".journal", ".parts/1/0/m"]
    )
    def test_what_isnt_listed_cannot_be_opened(self, artifacts: FolderArtifacts, path: str) -> None:
        artifacts.append_log("a", LOG, 0, b"x")
        artifacts.append_output("a", 1, 0, "m", 0, b"x")
        with pytest.raises(NotFoundError):
            artifacts.open_file("a", path)

    # --- walls ---
    @pytest.mark.parametrize("path", HOSTILE, ids=lambda path: ascii(path)[:12])
    def test_no_path_leaves_its_folder(self, artifacts: FolderArtifacts, path: str) -> None:
        for use in (
            lambda: artifacts.open_file("a", path),
            lambda: artifacts.open_file("a", "outputs/" + path),
            lambda: artifacts.write_text("a", path, "x"),
            lambda: artifacts.keep_text("a", path, "x"),
            lambda: artifacts.append_output("a", 1, 0, path, 0, b"x"),
            lambda: artifacts.commit_outputs("a", 1, 0, {path: (1, sha(b"x"))}),
            lambda: artifacts.append_log("a", path, 0, b"x"),
            lambda: artifacts.append_log("a", f"logs/1.1/0/{path}.log", 0, b"x"),
        ):
            with pytest.raises(ForbiddenError):
                use()

    @pytest.mark.parametrize("job", [*HOSTILE, "a/b", ".hidden"], ids=lambda path: ascii(path)[:12])
    def test_no_job_is_outside_the_folder_of_jobs(self, artifacts: FolderArtifacts, job: str) -> None:
        for use in (
            lambda: artifacts.append_log(job, LOG, 0, b"x"),
            lambda: artifacts.log_chunks(job),
            lambda: artifacts.settle_logs(job, 1, 1, 0),
            lambda: artifacts.append_output(job, 1, 0, "m", 0, b"x"),
            lambda: artifacts.commit_outputs(job, 1, 0, {}),
            lambda: artifacts.write_text(job, "plan.json", "x"),
            lambda: artifacts.files(job),
            lambda: artifacts.open_file(job, "plan.json"),
        ):
            with pytest.raises(ForbiddenError):
                use()

"""What every place for files promises: the sentences of `drumbeat.ports.Artifacts`.

A test module subclasses `ArtifactsContract` and gives the fixture `open_artifacts`; each call opens the same data.
"""
# ruff: noqa: S101 - asserting is what a contract does

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from drumbeat.ports import Artifacts, LogChunk
from drumbeat.protocol.errors import ConflictError, ForbiddenError, NotFoundError, StaleError
from drumbeat.protocol.logs import NODE_LOG, LogName

Open = Callable[[], Artifacts]

LOG = LogName(1, 1, 0, 0).path
HOSTILE = (
    *("", ".", "..", "../x", "a/../../x", "a/..", "/etc/passwd", "a//b", "a/./b", "a/", "/", "a\0b", "a/b\0"),
    *("x" * 256, "a/" + "é" * 200, "/".join(["deep"] * 2000), "x" * 10_000, "\udcff"),
)
"""Paths and names that mustn't lead anywhere."""


class ArtifactsContract:
    """Snapshots, logs, outputs, small files, and the walls around them."""

    @pytest.fixture
    def open_artifacts(self) -> Open:
        raise NotImplementedError("the subclass says how its data is opened")

    @pytest.fixture
    def artifacts(self, open_artifacts: Open) -> Artifacts:
        return open_artifacts()

    # --- snapshots ---
    def test_a_snapshot_is_kept_whole(self, artifacts: Artifacts, open_artifacts: Open) -> None:
        digest = sha(b"tar" * 1000)
        assert not artifacts.has_snapshot(digest)
        for _ in range(2):
            artifacts.add_snapshot(digest, [b"tar"] * 1000)
            assert artifacts.has_snapshot(digest)
        with open_artifacts().open_snapshot(digest) as file:
            assert file.read() == b"tar" * 1000

    def test_nothing_is_kept_of_other_bytes(self, artifacts: Artifacts) -> None:
        with pytest.raises(ConflictError):
            artifacts.add_snapshot(sha(b"whole"), [b"who"])
        assert not artifacts.has_snapshot(sha(b"whole"))
        with pytest.raises(NotFoundError):
            artifacts.open_snapshot(sha(b"whole"))

    @pytest.mark.parametrize("error", [ConnectionResetError, RuntimeError])
    def test_nothing_is_kept_when_the_sender_vanishes(self, artifacts: Artifacts, error: type[Exception]) -> None:
        def pieces() -> Iterator[bytes]:
            yield b"wh"
            raise error("the sender is gone")

        with pytest.raises((ConflictError, RuntimeError), match="sender is gone"):
            artifacts.add_snapshot(sha(b"whole"), pieces())
        assert not artifacts.has_snapshot(sha(b"whole"))

    @pytest.mark.parametrize("digest", ["", "..", "a" * 63, "A" * 64, "../" + "a" * 61, "a" * 64 + "\n"])
    def test_a_snapshot_is_named_by_a_digest(self, artifacts: Artifacts, digest: str) -> None:
        for use in (
            lambda: artifacts.has_snapshot(digest),
            lambda: artifacts.open_snapshot(digest),
            lambda: artifacts.add_snapshot(digest, []),
        ):
            with pytest.raises(ForbiddenError):
                use()

    # --- removing ---
    def test_removed_job_has_no_file_and_others_keep_theirs(self, artifacts: Artifacts, open_artifacts: Open) -> None:
        for job in ("a", "ab"):
            artifacts.append_log(job, LOG, 0, b"line\n")
            artifacts.write_text(job, "plan.json", "{}")
        for _ in range(2):
            artifacts.remove_job("a")
            assert (open_artifacts().files("a"), artifacts.log_end("a")) == ([], 0)
        assert [file.path for file in artifacts.files("ab")] == [LOG, "plan.json", "user_logs/std_log_0.txt"]
        assert set(artifacts.job_space()) == {"ab"}

    def test_job_of_a_removed_name_begins_with_empty_logs(self, artifacts: Artifacts, open_artifacts: Open) -> None:
        other = open_artifacts()
        for store in (artifacts, other):
            store.append_log("a", LOG, 0, b"first job, a long line\n")
        artifacts.remove_job("a")
        artifacts.write_text("a", "plan.json", "{}")
        assert artifacts.append_log("a", LogName(1, 1, 1, 0).path, 0, b"new\n") == 4
        assert other.append_log("a", LogName(1, 1, 0, 1).path, 0, b"newer\n") == 6
        assert [chunk.data for chunk in open_artifacts().log_chunks("a")] == [b"new\n", b"newer\n"]

    def test_removing_logs_leaves_outputs_plan_and_story(self, artifacts: Artifacts) -> None:
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

    def test_space_of_a_job_is_counted_by_kind(self, artifacts: Artifacts) -> None:
        assert artifacts.job_space() == {}
        artifacts.append_log("a", LOG, 0, b"x" * 100_000)
        space = artifacts.job_space()["a"]
        assert space.logs >= 100_000
        assert (space.outputs, space.checkpoints) == (0, 0)
        assert space.total == space.logs + space.other

    @pytest.mark.parametrize("job", HOSTILE)
    def test_removing_a_job_of_a_hostile_name_is_refused(self, artifacts: Artifacts, job: str) -> None:
        for call in (artifacts.remove_job, artifacts.remove_logs):
            with pytest.raises(ForbiddenError):
                call(job)

    def test_snapshot_asked_for_lately_is_not_removed(self, artifacts: Artifacts) -> None:
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

    # --- logs ---
    def test_only_what_lies_beyond_a_log_is_added(self, artifacts: Artifacts) -> None:
        sizes = [
            artifacts.append_log("a", LOG, offset, data)
            for offset, data in ((0, b"hello"), (0, b"hello"), (3, b"lo wor"), (5, b" w"), (100, b"gap"), (9, b"ld"))
        ]
        assert sizes == [5, 5, 9, 9, 9, 11]
        assert text(artifacts.log_chunks("a")) == {(1, 1, 0, 0): b"hello world"}
        assert artifacts.open_file("a", LOG).read_bytes() == b"hello world"

    def test_pieces_come_in_order_of_arrival_from_any_position(self, artifacts: Artifacts) -> None:
        for n in range(20):
            artifacts.append_log("a", LogName(1, 1, n % 2, n % 4).path, n // 4 * 2, b"%02d" % n)
        chunks = artifacts.log_chunks("a")
        assert [chunk.data for chunk in chunks] == [b"%02d" % n for n in range(20)]
        assert [chunk.log[2:] for chunk in chunks[:4]] == [(0, 0), (1, 1), (0, 2), (1, 3)]
        positions = [chunk.position for chunk in chunks]
        assert positions == sorted(set(positions))
        assert (artifacts.log_end("a"), artifacts.log_end("b")) == (positions[-1], 0)
        for n, position in enumerate(positions):
            assert artifacts.log_chunks("a", after=position) == chunks[n + 1 :]

    def test_end_of_the_logs_begins_where_it_is_long_enough(self, artifacts: Artifacts) -> None:
        sizes = [1 + n % 3 for n in range(2100)]
        for n, size in enumerate(sizes):
            artifacts.append_log("a", LOG, sum(sizes[:n]), b"x" * size)
        assert (artifacts.log_start("a", end=2100, length=3), artifacts.log_start("a", end=2100, length=4)) == (
            2099,
            2098,
        )
        assert artifacts.log_start("a", end=2098, length=1) == 2097
        assert artifacts.log_start("a", end=2100, length=sum(sizes[50:])) == 50
        assert artifacts.log_start("a", end=2100, length=10000) == artifacts.log_start("b", end=1, length=1) == 0

    def test_pages_end_near_their_limit_and_miss_nothing(self, artifacts: Artifacts) -> None:
        data = bytes(range(256)) * 16 * 1024
        artifacts.append_log("a", LOG, 0, data)
        for n in range(100):
            artifacts.append_log("a", LogName(1, 1, 0, 1).path, n * 10, b"0123456789")
        pages: list[LogChunk] = []
        while page := artifacts.log_chunks("a", after=pages[-1].position if pages else 0, limit=1000):
            assert sum(len(chunk.data) for chunk in page) <= (1 << 20) + 1000
            pages += page
        assert text(pages) == {(1, 1, 0, 0): data, (1, 1, 0, 1): b"0123456789" * 100}

    def test_logs_go_on_after_reopening(self, artifacts: Artifacts, open_artifacts: Open) -> None:
        artifacts.append_log("a", LOG, 0, b"one")
        again = open_artifacts()
        assert again.append_log("a", LOG, 2, b"e, two") == 8
        again.append_log("a", LogName(2, 1, 0, 0).path, 0, b"new attempt")
        chunks = open_artifacts().log_chunks("a")
        assert [(chunk.log.attempt, chunk.data) for chunk in chunks] == [
            (1, b"one"),
            (1, b", two"),
            (2, b"new attempt"),
        ]
        assert open_artifacts().log_chunks("b") == []

    def test_ranks_may_write_at_the_same_time(self, artifacts: Artifacts) -> None:
        def write(rank: int) -> None:
            for n in range(50):
                artifacts.append_log("a", LogName(1, 1, 0, rank).path, n * 4, b"%04d" % n)

        with ThreadPoolExecutor(8) as threads:
            list(threads.map(write, range(8)))
        whole = b"".join(b"%04d" % n for n in range(50))
        assert text(artifacts.log_chunks("a")) == {(1, 1, 0, rank): whole for rank in range(8)}

    def test_two_servers_may_write_one_job_s_logs(self, open_artifacts: Open) -> None:
        servers = [open_artifacts(), open_artifacts()]

        def write(rank: int) -> None:
            for n in range(60):
                # As an agent does that changes servers, and sends again what it got no answer to.
                for server in servers if n % 5 == 0 else [servers[n % 2]]:
                    assert server.append_log("a", LogName(1, 1, 0, rank).path, n * 4, b"%04d" % n) == n * 4 + 4

        with ThreadPoolExecutor(6) as threads:
            list(threads.map(write, range(6)))
        whole = b"".join(b"%04d" % n for n in range(60))
        for server in (*servers, open_artifacts()):
            assert text(server.log_chunks("a")) == {(1, 1, 0, rank): whole for rank in range(6)}

    def test_one_piece_sent_to_two_servers_at_once_is_there_once(self, open_artifacts: Open) -> None:
        servers = [open_artifacts(), open_artifacts()]

        def write(server: Artifacts) -> None:
            for n in range(40):
                at_once.wait()
                assert server.append_log("a", LOG, n * 4, b"%04d" % n) == n * 4 + 4

        at_once = Barrier(2)
        with ThreadPoolExecutor(2) as threads:
            list(threads.map(write, servers))
        assert text(open_artifacts().log_chunks("a")) == {(1, 1, 0, 0): b"".join(b"%04d" % n for n in range(40))}

    # --- outputs ---
    def test_nodes_may_give_their_outputs_to_two_servers(self, open_artifacts: Open) -> None:
        servers = [open_artifacts(), open_artifacts()]
        for server in servers:
            assert contents(server, "a") == {}
        for node in range(4):
            give(servers[node % 2], 1, node, {"same": b"node %d" % node, f"own {node}": b"x"})
        shown = {"outputs/same": b"node 0", **{f"outputs/own {node}": b"x" for node in range(4)}}
        for server in (*servers, open_artifacts()):
            assert contents(server, "a") == shown
        give(servers[0], 2, 0, {"new": b"2"})
        with pytest.raises(StaleError):
            servers[1].append_output("a", 1, 0, "late", 0, b"1")
        assert contents(servers[1], "a") == {"outputs/new": b"2"}

    def test_outputs_are_shown_when_all_of_them_are_right(self, artifacts: Artifacts, open_artifacts: Open) -> None:
        files = {"default/model.pt": b"weights", "default/deep/er.txt": b"text", "empty": b""}
        for path, data in files.items():
            if data:
                assert artifacts.append_output("a", 1, 0, path, 0, data[:3]) == min(3, len(data))
        assert artifacts.commit_outputs("a", 1, 0, described(files)) == ["default/model.pt", "default/deep/er.txt"]
        assert artifacts.files("a") == []
        again = open_artifacts()
        for path, data in files.items():
            assert again.append_output("a", 1, 0, path, 0, data) == len(data)
        assert again.files("a") == []
        for _ in range(2):
            assert again.commit_outputs("a", 1, 0, described(files)) == []
        for one in (again, open_artifacts()):
            assert contents(one, "a") == {f"outputs/{path}": data for path, data in files.items()}

    def test_a_file_that_came_out_wrong_begins_anew(self, artifacts: Artifacts) -> None:
        artifacts.append_output("a", 1, 0, "m", 0, b"wrong")
        artifacts.append_output("a", 1, 0, "good", 0, b"good")
        files = described({"m": b"right", "good": b"good"})
        assert artifacts.commit_outputs("a", 1, 0, files) == ["m"]
        assert artifacts.append_output("a", 1, 0, "m", 0, b"right") == 5
        assert artifacts.commit_outputs("a", 1, 0, files) == []
        assert contents(artifacts, "a") == {"outputs/m": b"right", "outputs/good": b"good"}

    @pytest.mark.parametrize("order", [(0, 1), (1, 0)])
    def test_the_lower_node_s_file_is_kept(self, artifacts: Artifacts, order: tuple[int, int]) -> None:
        for node in order:
            give(artifacts, 1, node, {"same": b"node %d" % node, f"own {node}": b"", "x" if node else "x/y": b"z"})
        give(artifacts, 1, 1, {"same": b"node 1", "own 1": b"", "x": b"z"}, is_sent=False)
        shown = {"outputs/same": b"node 0", "outputs/own 0": b"", "outputs/own 1": b"", "outputs/x/y": b"z"}
        assert contents(artifacts, "a") == shown

    def test_a_newer_attempt_takes_the_older_one_s_place(self, artifacts: Artifacts) -> None:
        give(artifacts, 1, 0, {"old": b"1", "both": b"1", "deep/file": b"1"})
        give(artifacts, 1, 1, {"old too": b"1"})
        give(artifacts, 2, 0, {"both": b"2", "deep": b"2"})
        assert contents(artifacts, "a") == {"outputs/both": b"2", "outputs/deep": b"2"}
        with pytest.raises(StaleError):
            artifacts.append_output("a", 1, 0, "late", 0, b"1")
        with pytest.raises(StaleError):
            artifacts.commit_outputs("a", 1, 0, described({}))
        assert contents(artifacts, "a") == {"outputs/both": b"2", "outputs/deep": b"2"}

    def test_a_node_may_replace_and_withdraw_what_it_gave(self, artifacts: Artifacts) -> None:
        give(artifacts, 1, 0, {"a": b"1", "b": b"1", "c": b"1", "a line\nbreak ": b""})
        artifacts.append_output("a", 1, 0, "b", 0, b"22")
        assert artifacts.commit_outputs("a", 1, 0, described({"a": b"1", "b": b"22"})) == []
        assert contents(artifacts, "a") == {"outputs/a": b"1", "outputs/b": b"22"}

    def test_what_was_sent_and_never_shown_goes_with_its_attempt(
        self, artifacts: Artifacts, open_artifacts: Open
    ) -> None:
        give(artifacts, 1, 0, {"shown": b"1"})
        for node in (0, 1):
            artifacts.append_output("a", 1, node, "half", 0, b"1")
        artifacts.append_output("a", 2, 0, "next", 0, b"2")
        for one in (artifacts, open_artifacts()):
            one.drop_parts("a", 1)
        artifacts.drop_parts("nobody", 1)
        assert contents(artifacts, "a") == {"outputs/shown": b"1"}
        for node in (0, 1):
            assert artifacts.append_output("a", 1, node, "half", 5, b"") == 0
        assert artifacts.append_output("a", 2, 0, "next", 5, b"") == 1
        assert artifacts.commit_outputs("a", 1, 0, described({"shown": b"1", "half": b"1"})) == ["half"]
        give(artifacts, 2, 0, {"next": b"2"}, is_sent=False)
        assert contents(artifacts, "a") == {"outputs/next": b"2"}

    # --- files ---
    def test_small_files_are_replaced_whole(self, artifacts: Artifacts) -> None:
        for content in ("a long first text", "kürzer", ""):
            artifacts.write_text("a", "plan.json", content)
            assert contents(artifacts, "a") == {"plan.json": content.encode()}

    def test_a_kept_text_stays_what_it_was_first(self, artifacts: Artifacts) -> None:
        assert artifacts.keep_text("a", "inputs/x.json", "first") == "first"
        assert artifacts.keep_text("a", "inputs/x.json", "second") == "first"
        assert contents(artifacts, "a") == {"inputs/x.json": b"first"}

    def test_files_are_listed_by_path(self, artifacts: Artifacts) -> None:
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
    def test_what_isnt_listed_cannot_be_opened(self, artifacts: Artifacts, path: str) -> None:
        artifacts.append_log("a", LOG, 0, b"x")
        artifacts.append_output("a", 1, 0, "m", 0, b"x")
        with pytest.raises(NotFoundError):
            artifacts.open_file("a", path)

    # --- walls ---
    @pytest.mark.parametrize("path", HOSTILE, ids=lambda path: ascii(path)[:12])
    def test_no_path_leaves_its_folder(self, artifacts: Artifacts, path: str) -> None:
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
    def test_no_job_is_outside_the_folder_of_jobs(self, artifacts: Artifacts, job: str) -> None:
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

    def test_settled_logs_are_what_they_were(self, artifacts: Artifacts) -> None:
        artifacts.settle_logs("a", 1, 1, 0)
        artifacts.append_log("a", LOG, 0, b"one, ")
        artifacts.settle_logs("a", 1, 1, 0)
        artifacts.append_log("a", LOG, 5, b"two")
        assert b"".join(chunk.data for chunk in artifacts.log_chunks("a")) == b"one, two"

    def test_a_nodes_own_log_is_one_among_those_of_its_ranks(self, artifacts: Artifacts) -> None:
        own = LogName(1, 1, 0, NODE_LOG).path
        artifacts.append_log("a", own, 0, b"collecting")
        artifacts.append_log("a", LOG, 0, b"epoch 1")
        artifacts.append_log("a", own, 10, b", done")
        chunks = artifacts.log_chunks("a")
        assert [(chunk.log.rank, chunk.data) for chunk in chunks] == [
            (-1, b"collecting"),
            (0, b"epoch 1"),
            (-1, b", done"),
        ]
        assert artifacts.open_file("a", "logs/1.1/0/node.log").read_bytes() == b"collecting, done"

    @pytest.mark.parametrize(
        "file",
        [
            "logs/1.1/0/nodes.log",
            "logs/1.1/0/-1.log",
            "logs/1.1/0/0.txt",
            "logs/1/0/0.log",
            "logs/-1.1/0/0.log",
            "outputs/x",
            "logs/01.1/0/0.log",
        ],
    )
    def test_a_log_has_a_log_s_name(self, artifacts: Artifacts, file: str) -> None:
        with pytest.raises(ForbiddenError):
            artifacts.append_log("a", file, 0, b"x")


def sha(data: bytes) -> str:
    """SHA-256 in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def described(files: dict[str, bytes]) -> dict[str, tuple[int, str]]:
    """Files as `commit_outputs` is told of them."""
    return {path: (len(data), sha(data)) for path, data in files.items()}


def give(artifacts: Artifacts, attempt: int, node: int, files: dict[str, bytes], *, is_sent: bool = True) -> None:
    """Sends a node's outputs of job `a`, and has them shown."""
    for path, data in files.items() if is_sent else ():
        artifacts.append_output("a", attempt, node, path, 0, data)
    assert artifacts.commit_outputs("a", attempt, node, described(files)) == []


def text(chunks: list[LogChunk]) -> dict[LogName, bytes]:
    """Each log's bytes; each piece must begin where the one before it ended."""
    texts: dict[LogName, bytes] = {}
    for chunk in chunks:
        assert chunk.offset == len(texts.get(chunk.log, b""))
        texts[chunk.log] = texts.get(chunk.log, b"") + chunk.data
    return texts


def contents(artifacts: Artifacts, job: str) -> dict[str, bytes]:
    """Path to bytes of every file that is listed, sizes checked."""
    found = {one.path: artifacts.open_file(job, one.path).read_bytes() for one in artifacts.files(job)}
    assert [one.size for one in artifacts.files(job)] == [len(data) for data in found.values()]
    return found

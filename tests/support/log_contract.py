"""What every place for files promises of the logs of ranks."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from drumbeat.model.errors import ForbiddenError
from drumbeat.model.logs import NODE_LOG, LogName
from drumbeat.server.home_folder import FolderArtifacts
from drumbeat.server.home_folder.stored_files import LogChunk
from tests.support.artifacts_access import LOG, ArtifactsAccess, Open, text


class LogContract(ArtifactsAccess):
    """Logs that grow: in order, whole, from several ranks and servers."""

    def test_only_what_lies_beyond_a_log_is_added(self, artifacts: FolderArtifacts) -> None:
        sizes = [
            artifacts.append_log("a", LOG, offset, data)
            for offset, data in ((0, b"hello"), (0, b"hello"), (3, b"lo wor"), (5, b" w"), (100, b"gap"), (9, b"ld"))
        ]
        assert sizes == [5, 5, 9, 9, 9, 11]
        assert text(artifacts.log_chunks("a")) == {(1, 1, 0, 0): b"hello world"}
        assert artifacts.open_file("a", LOG).read_bytes() == b"hello world"

    def test_pieces_come_in_order_of_arrival_from_any_position(self, artifacts: FolderArtifacts) -> None:
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

    def test_end_of_the_logs_begins_where_it_is_long_enough(self, artifacts: FolderArtifacts) -> None:
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

    def test_pages_end_near_their_limit_and_miss_nothing(self, artifacts: FolderArtifacts) -> None:
        data = bytes(range(256)) * 16 * 1024
        artifacts.append_log("a", LOG, 0, data)
        for n in range(100):
            artifacts.append_log("a", LogName(1, 1, 0, 1).path, n * 10, b"0123456789")
        pages: list[LogChunk] = []
        while page := artifacts.log_chunks("a", after=pages[-1].position if pages else 0, limit=1000):
            assert sum(len(chunk.data) for chunk in page) <= (1 << 20) + 1000
            pages += page
        assert text(pages) == {(1, 1, 0, 0): data, (1, 1, 0, 1): b"0123456789" * 100}

    def test_logs_go_on_after_reopening(self, artifacts: FolderArtifacts, open_artifacts: Open) -> None:
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

    def test_ranks_may_write_at_the_same_time(self, artifacts: FolderArtifacts) -> None:
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

        def write(server: FolderArtifacts) -> None:
            for n in range(40):
                at_once.wait()
                assert server.append_log("a", LOG, n * 4, b"%04d" % n) == n * 4 + 4

        at_once = Barrier(2)
        with ThreadPoolExecutor(2) as threads:
            list(threads.map(write, servers))
        assert text(open_artifacts().log_chunks("a")) == {(1, 1, 0, 0): b"".join(b"%04d" % n for n in range(40))}

    def test_settled_logs_are_what_they_were(self, artifacts: FolderArtifacts) -> None:
        artifacts.settle_logs("a", 1, 1, 0)
        artifacts.append_log("a", LOG, 0, b"one, ")
        artifacts.settle_logs("a", 1, 1, 0)
        artifacts.append_log("a", LOG, 5, b"two")
        assert b"".join(chunk.data for chunk in artifacts.log_chunks("a")) == b"one, two"

    def test_a_nodes_own_log_is_one_among_those_of_its_ranks(self, artifacts: FolderArtifacts) -> None:
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
    def test_a_log_has_a_log_s_name(self, artifacts: FolderArtifacts, file: str) -> None:
        with pytest.raises(ForbiddenError):
            artifacts.append_log("a", file, 0, b"x")

"""The spool of a node: what was answered is on the disk, in order, and comes to the server once."""

from __future__ import annotations

import os
import queue
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from drumbeat.model.errors import DrumbeatError, RefusedError, UnreachableError
from drumbeat.model.metric_lines import encode_record, spooled
from drumbeat.model.metrics import MetricRecord, Point, PointsLogged, run_id
from drumbeat.node.metrics.folder import (
    OVER,
    STUCK,
    is_stuck,
    keep_sent,
    loss_reason,
    segments,
    sent_offset,
    spool_length,
)
from drumbeat.node.metrics.forwarder import Forwarder
from drumbeat.node.metrics.spool import Spool, SpoolFullError
from drumbeat.node.platform.request_backoff import Backoff

RUN = run_id("j")


def points(step: int) -> PointsLogged:
    return PointsLogged(RUN, 0, (Point("loss", 0.5, step, 1),))


class Server:
    """Takes lines as the real one does; `failures` are raised first."""

    def __init__(self, *failures: DrumbeatError) -> None:
        self.records: list[MetricRecord] = []
        self.offset, self.failures = 0, list(failures)

    def metrics(self, offset: int, lines: bytes) -> int:
        if self.failures:
            raise self.failures.pop(0)
        if offset <= self.offset:
            new = [one for one in spooled(lines, offset) if one.end > self.offset]
            self.records += [one.record for one in new]
            self.offset = max([self.offset, *(one.end for one in new)])
        return self.offset


def forwarded(spool: Spool, server: Server, sent: Path) -> Forwarder:
    forwarder = Forwarder(spool, server, str(sent), lambda _: None, 0.0)
    forwarder.begin()
    return forwarder


@pytest.mark.feature("M2")
def test_lines_of_many_threads_are_all_in_the_spool_when_answered(tmp_path: Path):
    spool = Spool(str(tmp_path))

    def write(first: int) -> None:
        for step in range(first, first + 20):
            spool.append(encode_record(points(step)))

    threads = [threading.Thread(target=write, args=(100 * number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    again = Spool(str(tmp_path))
    steps = [one.record.points[0].step for one in again.records() if isinstance(one.record, PointsLogged)]
    assert sorted(steps) == sorted(100 * number + step for number in range(4) for step in range(20))
    assert again.end == spool.end == spool_length(str(tmp_path))


KILLED = """
import os, sys
from drumbeat.node.metrics.spool import Spool
from drumbeat.model.metric_lines import encode_record
from drumbeat.model.metrics import Point, PointsLogged
spool = Spool(sys.argv[1])
spool.append(encode_record(PointsLogged("a" * 32, 0, (Point("loss", 1.0, 0, 1),))))
line = encode_record(PointsLogged("a" * 32, 0, (Point("loss", 2.0, 1, 1),)))
os.write(spool._file, line[:-9])
os.kill(os.getpid(), 9)
"""


@pytest.mark.feature("M2")
def test_a_line_that_was_cut_by_kill_9_is_removed_and_the_ones_before_it_stay(tmp_path: Path):
    subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], check=False)
    cut = spool_length(str(tmp_path))
    spool = Spool(str(tmp_path))
    assert spool.end < cut
    spool.append(encode_record(points(7)))
    steps = [one.record.points[0].step for one in spool.records() if isinstance(one.record, PointsLogged)]
    assert steps == [0, 7]


def test_a_full_spool_refuses_more_until_the_server_has_taken_some(tmp_path: Path):
    line = encode_record(points(0))
    spool = Spool(str(tmp_path), max_unsent=2 * len(line))
    spool.append(line)
    spool.append(line)
    with pytest.raises(SpoolFullError, match="wait for the server already"):
        spool.append(line)
    spool.release(len(line))
    spool.append(line)
    assert spool.end == 3 * len(line)


def test_segments_that_the_server_has_taken_are_removed_and_offsets_go_on(tmp_path: Path):
    line = encode_record(points(0))
    spool = Spool(str(tmp_path), kept=0, segment=2 * len(line))
    for _ in range(7):
        spool.append(line)
    assert segments(str(tmp_path)) == [0, 2 * len(line), 4 * len(line), 6 * len(line)]
    spool.release(5 * len(line))
    assert spool.start == 4 * len(line)
    assert Spool(str(tmp_path)).start == 4 * len(line)
    assert [one.end for one in spool.records()] == [5 * len(line), 6 * len(line), 7 * len(line)]


def test_refused_write_leaves_the_spool_unchanged(tmp_path: Path):
    spool = Spool(str(tmp_path))
    spool.append(encode_record(points(0)))
    os.close(spool._file)
    spool._file = os.open("/dev/full", os.O_WRONLY)
    with pytest.raises(SpoolFullError, match="No space left"):
        spool.append(encode_record(points(1)))
    assert spool.end == spool_length(str(tmp_path)) == len(encode_record(points(0)))


@pytest.mark.feature("M2")
def test_spool_is_sent_once_and_in_order_after_an_outage(tmp_path: Path):
    spool, server = Spool(str(tmp_path / "spool")), Server(*[UnreachableError("away")] * 3)
    for step in range(5):
        spool.append(encode_record(points(step)))
    forwarder = forwarded(spool, server, tmp_path / "sent")
    with forwarder._changed:
        assert forwarder._changed.wait_for(lambda: forwarder.sent == spool.end, 10)
    assert server.records == [points(step) for step in range(5)]
    assert sent_offset(str(tmp_path / "sent")) == spool.end


@pytest.mark.feature("M2")
def test_a_forwarder_that_lost_its_offset_adds_nothing_twice(tmp_path: Path):
    spool, server = Spool(str(tmp_path / "spool")), Server()
    spool.append(encode_record(points(0)) + encode_record(points(1)))
    assert forwarded(spool, server, tmp_path / "sent").flush(10)
    spool.append(encode_record(points(2)))
    assert forwarded(spool, server, tmp_path / "other").flush(10)
    assert server.records[:3] == [points(0), points(1), points(2)]
    assert len(server.records) == 3


def test_a_server_that_refuses_for_good_ends_the_forwarding_with_its_reason(tmp_path: Path):
    spool = Spool(str(tmp_path / "spool"))
    spool.append(encode_record(points(0)))
    forwarder = forwarded(spool, Server(RefusedError("no such field")), tmp_path / "sent")
    with forwarder._changed:
        assert forwarder._changed.wait_for(lambda: forwarder.is_over, 10)
    assert "no such field" in loss_reason(str(tmp_path / "sent"))


@pytest.mark.feature("M2")
def test_a_server_that_lost_what_the_node_has_no_more_ends_the_forwarding_with_that_reason(tmp_path: Path):
    """It was restored from a copy, say. The end of the job waits until all is sent, or until it is said why not."""
    line = encode_record(points(0))
    spool, server = Spool(str(tmp_path / "spool"), kept=0, segment=len(line)), Server()
    forwarder = forwarded(spool, server, tmp_path / "sent")
    for _ in range(3):
        spool.append(line)
        assert forwarder.flush(10)
    assert spool.start > 0
    server.offset = 0
    spool.append(line)
    with forwarder._changed:
        assert forwarder._changed.wait_for(lambda: forwarder.is_over, 10)
    assert loss_reason(str(tmp_path / "sent")).startswith("the server has lost metrics of this node")


class Defective(Server):
    """Fails at batches with a point of one of these steps, as a server with a defect does."""

    def __init__(self, *bad: int, is_broken: bool = False) -> None:
        super().__init__()
        self.bad, self.is_broken = {encode_record(points(step)) for step in bad}, is_broken

    def metrics(self, offset: int, lines: bytes) -> int:
        if self.is_broken or self.bad & set(lines.splitlines(keepends=True)):
            raise DrumbeatError("internal error of the server (AttributeError)")
        return super().metrics(offset, lines)


def quickly(spool: Spool, server: Server, sent: Path, note: Callable[[str], None]) -> Forwarder:
    forwarder = Forwarder(spool, server, str(sent), note, 0.0)
    forwarder._backoff = Backoff(0.0005, 0.001)
    forwarder.begin()
    return forwarder


def kept_steps(server: Server) -> list[int]:
    return [one.points[0].step for one in server.records if isinstance(one, PointsLogged)]


@pytest.mark.feature("M2")
@pytest.mark.parametrize("bad", [{0}, {57}, {99}, {3, 4, 5, 90}])
def test_line_at_which_the_server_fails_is_skipped_and_all_others_arrive(tmp_path: Path, bad: set[int]):
    spool, server, sent, notes = Spool(str(tmp_path / "spool")), Defective(*bad), tmp_path / "sent", list[str]()
    for step in range(100):
        spool.append(encode_record(points(step)))
    forwarder = quickly(spool, server, sent, notes.append)
    with forwarder._changed:
        assert forwarder._changed.wait_for(lambda: forwarder.sent == spool.end, 30)
    assert kept_steps(server) == [step for step in range(100) if step not in bad]
    which = "a record" if len(bad) == 1 else "4 records"
    expected = f"the server can't keep {which} of metrics of this node: internal error of the server (AttributeError)"
    assert loss_reason(str(sent)) == expected
    assert len([note for note in notes if "skipped a line" in note]) == len(bad)


@pytest.mark.feature("M2")
def test_server_that_fails_a_few_times_loses_no_line(tmp_path: Path):
    spool, server = Spool(str(tmp_path / "spool")), Server(*[DrumbeatError("a defect")] * 7)
    for step in range(8):
        spool.append(encode_record(points(step)))
    forwarder = quickly(spool, server, tmp_path / "sent", lambda _: None)
    with forwarder._changed:
        assert forwarder._changed.wait_for(lambda: forwarder.sent == spool.end, 30)
    assert kept_steps(server) == [*range(8)]
    assert loss_reason(str(tmp_path / "sent")) == ""


@pytest.mark.feature("M2")
def test_server_that_fails_at_every_line_is_stuck_without_skips(tmp_path: Path):
    spool, server, sent = Spool(str(tmp_path / "spool")), Defective(is_broken=True), tmp_path / "sent"
    for step in range(8):
        spool.append(encode_record(points(step)))
    forwarder = quickly(spool, server, sent, lambda _: None)
    deadline = time.monotonic() + 30
    while not is_stuck(str(sent)):
        assert time.monotonic() < deadline
        time.sleep(0.005)
    assert "internal error of the server" in loss_reason(str(sent))
    server.is_broken = False
    with forwarder._changed:
        assert forwarder._changed.wait_for(lambda: forwarder.sent == spool.end, 30)
    assert kept_steps(server) == [*range(8)]
    assert (is_stuck(str(sent)), loss_reason(str(sent))) == (False, "")


def wait_until_stuck(sent: Path, *, is_so: bool = True) -> None:
    deadline = time.monotonic() + 30
    while is_stuck(str(sent)) is not is_so:
        assert time.monotonic() < deadline
        time.sleep(0.005)


@pytest.mark.feature("M2")
def test_absent_server_is_not_stuck_after_failures(tmp_path: Path):
    class UnderRepair(Defective):
        is_away = False

        def metrics(self, offset: int, lines: bytes) -> int:
            if self.is_away:
                raise UnreachableError("no server answers")
            return super().metrics(offset, lines)

    spool, server, sent = Spool(str(tmp_path / "spool")), UnderRepair(is_broken=True), tmp_path / "sent"
    spool.append(encode_record(points(0)))
    forwarder = quickly(spool, server, sent, lambda _: None)
    wait_until_stuck(sent)
    server.is_away = True
    wait_until_stuck(sent, is_so=False)
    assert (loss_reason(str(sent)), forwarder.is_away) == ("", True)
    server.is_away = server.is_broken = False
    with forwarder._changed:
        assert forwarder._changed.wait_for(lambda: forwarder.sent == spool.end, 30)


@pytest.mark.feature("M2")
@pytest.mark.parametrize("skipped", ["", "the server can't keep a record of metrics of this node: a defect"])
def test_forwarder_that_is_started_again_tells_only_of_lines_that_were_skipped(tmp_path: Path, skipped: str):
    spool, sent = Spool(str(tmp_path / "spool")), tmp_path / "sent"
    spool.append(encode_record(points(0)))
    stuck = "the server can't keep metrics of this node: a defect"
    keep_sent(str(sent), 0, STUCK, stuck, skipped)
    assert loss_reason(str(sent)) == stuck
    assert forwarded(spool, Server(), sent).flush(30)
    assert (sent_offset(str(sent)), loss_reason(str(sent))) == (spool.end, skipped)


@pytest.mark.feature("M2")
def test_reader_never_sees_the_end_of_an_earlier_reason(tmp_path: Path):
    file, reasons = str(tmp_path / "sent"), ["why", "another reason, which is longer"]
    keep_sent(file, 0, STUCK, reasons[1])
    program = """if True:
        import os, sys
        from drumbeat.node.metrics.folder import loss_reason
        print("reading", flush=True)
        seen = {loss_reason(sys.argv[1])}
        while os.path.exists(sys.argv[1]):
            seen.add(loss_reason(sys.argv[1]))
        print(*sorted(seen), sep="; ")"""
    with subprocess.Popen([sys.executable, "-c", program, file], stdout=subprocess.PIPE, text=True) as reader:
        assert reader.stdout
        assert reader.stdout.readline()
        for number in range(20_000):
            keep_sent(file, number, STUCK, reasons[number % 2])
        Path(file).unlink()
        assert {*reader.stdout.read().strip().split("; ")} - {""} <= {*reasons}


class Requests(Server):
    """Also keeps the end of each request, and says when there is one."""

    def __init__(self) -> None:
        super().__init__()
        self.ends: queue.SimpleQueue[int] = queue.SimpleQueue()

    def metrics(self, offset: int, lines: bytes) -> int:
        end = super().metrics(offset, lines)
        self.ends.put(end)
        return end


@pytest.mark.feature("M2")
def test_first_line_is_sent_at_once_and_later_ones_batched(tmp_path: Path):
    spool, server = Spool(str(tmp_path / "spool")), Requests()
    forwarder = Forwarder(spool, server, str(tmp_path / "sent"), lambda _: None, pause_s=600.0)
    forwarder.begin()
    line = encode_record(points(0))
    spool.append(line)
    assert server.ends.get(timeout=10) == len(line)
    spool.append(line)
    spool.append(line)
    assert forwarder.flush(10)
    assert server.ends.get(timeout=10) == 3 * len(line)
    assert server.ends.empty()


@pytest.mark.feature("M2", "F10")
def test_sent_offset_survives_a_full_disk(tmp_path: Path):
    """An agent waits until all is said to be sent: it would wait for ever for a file that was emptied."""
    file = str(tmp_path / "sent")
    keep_sent(file, 12_345, OVER, "a long reason")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        keep_sent(file, 99_999)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert sent_offset(file) == 12_345
    keep_sent(file, 99_999)
    assert (sent_offset(file), loss_reason(file)) == (99_999, "")

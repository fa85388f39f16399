"""Logs that can't be read hold up neither the others nor the end of their round."""

import errno
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from drumbeat.model.errors import DrumbeatError, UnreachableError
from drumbeat.node.logs import sender as sender_module
from drumbeat.node.logs.sender import TRIES, GrowingLog, LogRetries, LogSender
from drumbeat.node.platform.agent_log import Journal


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def refused(number: int) -> OSError:
    return OSError(number, os.strerror(number))


def test_a_log_is_tried_again_ever_more_seldom():
    clock = Clock()
    setbacks = LogRetries(0.025, clock)
    assert not setbacks
    assert not setbacks.has_to_wait("log")
    for _ in range(100):
        assert not setbacks.met("log", refused(errno.EIO), was_ended=False), "its ranks still run"
        assert setbacks.has_to_wait("log")
        assert not setbacks.has_to_wait("another")
        clock.now += 3.7
    setbacks.met("log", refused(errno.EIO), was_ended=False)
    assert setbacks.has_to_wait("log")
    clock.now += 5.0
    assert not setbacks.has_to_wait("log")
    setbacks.over("log")
    assert not setbacks


@pytest.mark.parametrize(("number", "is_lost"), [(errno.EIO, True), (errno.ESTALE, True), (errno.EMFILE, False)])
def test_unreadable_log_is_lost_after_many_tries(number: int, is_lost: bool):
    setbacks = LogRetries(0.025, Clock())
    tried = [setbacks.met("log", refused(number), was_ended=True) for _ in range(TRIES)]
    assert tried == [False] * (TRIES - 1) + [is_lost]


class Supervisor:
    """A server that keeps what it is given."""

    def __init__(self) -> None:
        self.logs: dict[str, bytes] = {}
        self.news = threading.Condition()

    def put(self, name: str, offset: int, data: bytes) -> int:
        with self.news:
            had = self.logs.get(name, b"")
            assert offset <= len(had)
            self.logs[name] = had + data[len(had) - offset :]
            self.news.notify_all()
            return len(self.logs[name])


def test_a_log_that_cannot_be_read_holds_up_neither_the_others_nor_the_end(tmp_path: Path):
    (tmp_path / "0.log" / "x").mkdir(parents=True)  # It can be opened and has a size; reading it is refused.
    (tmp_path / "1.log").write_text("all is well\n")
    server, done = Supervisor(), threading.Event()
    link: Any = server
    logs = [GrowingLog(str(tmp_path / name), name) for name in ("0.log", "1.log")]
    sender = LogSender(logs, link, Journal(str(tmp_path / "journal")), done.set, pause_s=0.0001)
    with server.news:
        assert server.news.wait_for(lambda: server.logs.get("1.log"), 20), "the other log is sent"
    assert not done.is_set()
    sender.finish()
    assert done.wait(20), "the round ends"
    why = f"drumbeat: the rest of this log is lost: its node can't read {tmp_path}/0.log (Is a directory)\n"
    assert server.logs == {"0.log": why.encode(), "1.log": b"all is well\n"}
    assert "the rest of a log is lost: [Errno 21]" in (tmp_path / "journal").read_text()


def test_log_at_which_the_server_fails_holds_up_the_end_for_long_only_until_a_cancel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    class Defective(Supervisor):
        tries = 0

        def put(self, name: str, offset: int, data: bytes) -> int:
            if name == "0.log" and data:
                with self.news:
                    self.tries += 1
                    self.news.notify_all()
                raise DrumbeatError("a defect")
            return super().put(name, offset, data)

    monkeypatch.setattr(sender_module, "_FAILING_S", 0.05)
    for name in ("0.log", "1.log"):
        (tmp_path / name).write_text("all is well\n")
    server, done = Defective(), threading.Event()
    link: Any = server
    logs = [GrowingLog(str(tmp_path / name), name) for name in ("0.log", "1.log")]
    sender = LogSender(logs, link, Journal(str(tmp_path / "journal")), done.set, pause_s=0.0001)
    sender.finish()
    with server.news:
        assert server.news.wait_for(lambda: server.tries >= 4, 20)
    assert (done.is_set(), sender.loss) == (False, "")
    sender.on_cancel()
    assert done.wait(20), "the round ends"
    assert sender.loss == "the server can't keep the rest of a log of this node: a defect"
    assert server.logs == {"0.log": b"", "1.log": b"all is well\n"}


def test_logs_of_a_canceled_job_wait_for_a_server_that_is_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    class Away(Supervisor):
        is_away = True
        tries = 0

        def put(self, name: str, offset: int, data: bytes) -> int:
            if self.is_away:
                with self.news:
                    self.tries += 1
                    self.news.notify_all()
                raise UnreachableError("no server answers")
            return super().put(name, offset, data)

    monkeypatch.setattr(sender_module, "_FAILING_S", 0.0)
    (tmp_path / "0.log").write_text("all is well\n")
    server, done = Away(), threading.Event()
    link: Any = server
    log = GrowingLog(str(tmp_path / "0.log"), "0.log")
    sender = LogSender([log], link, Journal(str(tmp_path / "journal")), done.set, pause_s=0.0001)
    sender.on_cancel()
    sender.finish()
    with server.news:
        assert server.news.wait_for(lambda: server.tries >= 4, 20)
    assert not done.is_set()
    server.is_away = False
    assert done.wait(20), "the round ends"
    assert (server.logs, sender.loss) == ({"0.log": b"all is well\n"}, "")


def test_log_with_a_limit_gives_back_the_space_of_what_was_sent(tmp_path: Path):
    server, path = Supervisor(), tmp_path / "0.log"
    link: Any = server
    log = GrowingLog(str(path), "0.log", keep=2 << 20)
    lines = b"".join(f"{at:07}\n".encode() for at in range(8 << 17))
    path.write_bytes(lines)
    while log.send_piece(link):
        pass
    assert server.logs["0.log"] == lines
    assert path.stat().st_size == len(lines)
    assert path.stat().st_blocks * 512 <= 4 << 20
    assert path.read_bytes()[-(2 << 20) :] == lines[-(2 << 20) :]
    with path.open("ab") as file:
        file.write(b"more\n")
    assert log.send_piece(link) == 5
    assert server.logs["0.log"] == lines + b"more\n"
    log.close()

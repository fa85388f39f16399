"""How a client comes to its server: found, started once, found again after it moved, refused when it doesn't fit."""

import contextlib
import fcntl
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import psutil
import pytest

from drumbeat.client import Client, autostart, connection, discovery, job_events
from drumbeat.client.connection import Connection
from drumbeat.client.discovery import ServerLocation, find, here, locate
from drumbeat.model import home_socket
from drumbeat.model.agent import Phase
from drumbeat.model.api.jobs import End, Event, EventView, LogPiece
from drumbeat.model.errors import AwayError, UnauthorizedError, UnreachableError, VersionError
from drumbeat.server import context
from drumbeat.server.home import Home
from drumbeat.server.process import serve

from .api_house import TOKEN, House, eventually, house_in, served

START = "import sys; from drumbeat.client import Client; print(Client(home=sys.argv[1]).status().pid)"


def announce(home: Path, **said: Any) -> None:
    machine = here()
    address = {
        "url": "http://127.0.0.1:9",
        "host": machine.host,
        "boot_id": machine.boot_id,
        "pid": os.getpid(),
        **said,
    }
    (home / "server.json").write_text(json.dumps(address))
    (home / "token").write_text(TOKEN)
    if not (place := home / home_socket.NAME).exists():
        home_socket.listen(str(place)).close()


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """A home whose server, if one was started, ends with the test."""
    yield tmp_path
    if address := find(tmp_path):
        process = psutil.Process(address.pid)
        if process.pid != os.getpid():
            process.terminate()
            process.wait(60)


def test_client_and_server_speak_of_the_same_things() -> None:
    assert discovery.PROTOCOL == context.PROTOCOL
    assert autostart.EXIT_TAKEN == serve.EXIT_TAKEN


@pytest.mark.thorough
def test_programs_that_want_a_server_at_once_start_one(home: Path) -> None:
    wanting = [
        subprocess.Popen([sys.executable, "-c", START, home], stdout=subprocess.PIPE, text=True) for _ in range(4)
    ]
    pids = {one.communicate(timeout=60)[0] for one in wanting}
    assert len(pids) == 1
    (pid,) = pids
    process = psutil.Process(int(pid))
    assert process.parent() != psutil.Process(), "it outlives who started it"
    assert os.getsid(process.pid) == process.pid


def test_killed_server_is_replaced_and_a_stopping_one_awaited(home: Path) -> None:
    with Client(home=home) as client:
        first = client.status()
        process = psutil.Process(first.pid)
        process.kill()
        process.wait(10)
        second = client.status()
        assert (second.pid != first.pid, second.url) == (True, first.url)
        client.stop()
        with Home(home).lock():
            pass  # Nobody writes into the home folder any more.
        third = client.status()
        assert third.pid != second.pid


def test_server_that_cannot_start_is_reported_with_the_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRUMBEAT_DATABASE", "nonsense://x")
    with pytest.raises(UnreachableError, match=r"(?s)didn't start.*nonsense"), Client(home=tmp_path) as client:
        client.status()


def test_no_server_is_started_without_autostart(tmp_path: Path) -> None:
    with pytest.raises(UnreachableError, match="no server is running"), Client(tmp_path, autostart=False) as client:
        client.list()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "said", [{"boot_id": "another"}, {"host": "another"}, {"pid": 2**22 + 1}, {"pid": 0}, {"pid": "x"}, {"pid": -1}]
)
def test_address_of_a_stopped_server_is_none(tmp_path: Path, said: dict[str, Any]) -> None:
    announce(tmp_path)
    assert find(tmp_path) is not None
    announce(tmp_path, **said)
    assert find(tmp_path) is None


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '"x"', "null"])
def test_an_address_file_that_cannot_be_read_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "server.json").write_text(text)
    assert find(tmp_path) is None


def test_a_number_that_another_process_has_by_now_is_no_server(home: Path) -> None:
    announce(home, pid=os.getpid())
    with pytest.raises(UnreachableError, match="no server answers"), Client(home, autostart=False) as client:
        client.list()
    with Client(home, token=None) as client:
        # The token of before is still this home's.
        assert client.status().pid != os.getpid()


def test_server_without_a_socket_in_its_home_is_sent_no_token(tmp_path: Path) -> None:
    announce(tmp_path, version="0.1")
    (tmp_path / home_socket.NAME).unlink()
    with (
        Home(tmp_path).lock(),
        pytest.raises(VersionError, match=rf"has version 0\.1.*`kill {os.getpid()}`"),
        Client(tmp_path) as client,
    ):
        client.list()


@pytest.mark.parametrize(
    ("spare_files", "sentence"),
    [
        (-(1 << 40), r"has this home and doesn't answer\..* It may wait for a disk"),
        (1 << 40, r"has this home and doesn't answer: all of the [\d,]+ files that it may have open are in use"),
    ],
)
def test_server_without_an_answer_is_named_with_what_it_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spare_files: int, sentence: str
) -> None:
    monkeypatch.setattr(autostart, "SPARE_FILES", spare_files)
    monkeypatch.setattr(autostart, "DEADLINE_S", 20.0)
    monkeypatch.setattr(autostart, "STUCK_S", 0.0)
    monkeypatch.setattr(connection, "HELLO", 0.2)
    with Home(tmp_path).listen(), Home(tmp_path).lock(), Client(tmp_path) as client:
        announce(tmp_path)
        with pytest.raises(UnreachableError, match=rf"process {os.getpid()}, {sentence}"):
            client.list()


class Falling:
    """A server that says who it is, and then answers no call: it keeps it, or breaks the connection first."""

    def __init__(self, breaks: int = 0) -> None:
        self.breaks, self.calls = breaks, 0
        self._told = {"protocol": discovery.PROTOCOL, "version": "0", "host": "h", "boot_id": "b"}
        self._stop = threading.Event()

    def __enter__(self) -> str:
        self._listener = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self._serve, daemon=True).start()
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._listener.close()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=self._answer, args=[self._listener.accept()[0]], daemon=True).start()

    def _answer(self, line: socket.socket) -> None:
        with line, line.makefile("rb") as lines:
            while first := lines.readline():
                while lines.readline().strip():
                    pass
                if b"/version" not in first:
                    self.calls += 1
                    if self.calls > self.breaks:
                        self._stop.wait(60)
                    return
                body = json.dumps(self._told).encode()
                line.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))


@pytest.mark.parametrize("breaks", [0, 1])
def test_silent_server_is_waited_for_once_and_not_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, breaks: int
) -> None:
    """The second try has what is left of the time, not a timeout of its own: that of 300 s would outlast the test."""
    monkeypatch.setattr(connection, "SILENCE_S", 3.0)
    monkeypatch.setattr(connection, "TIMEOUT", httpx.Timeout(300.0 if breaks else 3.0))
    server = Falling(breaks)
    with server as url, Client(tmp_path, url, TOKEN) as client:
        with pytest.raises(UnreachableError, match="the server has not answered for 3 s"):
            client.list()
        assert server.calls == breaks + 1


def test_transfer_is_not_tried_again_while_the_server_stays_silent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries = list[int]()
    with socket.create_server(("127.0.0.1", 0)) as mute:
        monkeypatch.setattr(connection, "HELLO", 0.2)
        line = Connection(ServerLocation(tmp_path, f"http://127.0.0.1:{mute.getsockname()[1]}", TOKEN))

        def send() -> None:
            tries.append(1)
            raise UnreachableError("the server has not answered for 60 s") from httpx.ReadTimeout("")

        with pytest.raises(UnreachableError, match="has not answered"):
            connection.again(line, send)
    assert tries == [1]


@pytest.mark.parametrize("holder", ["", "4711"])
def test_home_of_a_starting_server_is_awaited_with_few_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, holder: str
) -> None:
    clock, started = [0.0], list[Path]()

    def spawned(starting: autostart.ServerStart) -> SimpleNamespace:
        started.append(starting.home)
        return SimpleNamespace(poll=lambda: autostart.EXIT_TAKEN)

    monkeypatch.setattr(autostart, "_spawn", spawned)
    monkeypatch.setattr(autostart.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(autostart.time, "sleep", lambda seconds: clock.append(clock.pop() + seconds))
    announce(tmp_path)
    (tmp_path / "server.lock").write_text(holder)
    with pytest.raises(UnreachableError, match="isn't ready after 120 s"):
        autostart.start(autostart.ServerStart(tmp_path, silent=find(tmp_path)))
    assert len(started) < 70


def test_address_of_the_server_comes_from_arguments_then_the_environment(tmp_path: Path) -> None:
    told = {"DRUMBEAT_HOME": str(tmp_path), "DRUMBEAT_SERVER": "http://there:1/", "DRUMBEAT_TOKEN": "t"}
    assert locate(None, None, None, told) == ServerLocation(tmp_path, "http://there:1", "t")
    assert locate("/h", "http://here", "u", told) == ServerLocation(Path("/h"), "http://here", "u")
    assert locate(None, None, None, {"XDG_STATE_HOME": "/state"}).home == Path("/state/drumbeat")
    assert locate(None, None, None, {"DRUMBEAT_HOME": "~/x"}).home == Path("~/x").expanduser()
    assert locate(None, None, None, {}).home == Path("~/.local/state/drumbeat").expanduser()
    with pytest.raises(UnauthorizedError, match="DRUMBEAT_TOKEN"):
        ServerLocation(tmp_path).secret()


def test_server_with_another_protocol_is_refused_with_the_next_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with house_in(tmp_path) as house:
        for theirs, older in ((2, "Update the client"), (0, "Update the server")):
            monkeypatch.setattr(house.context, "identity", context.Identity(protocol=theirs, version="9.9"))
            with pytest.raises(VersionError, match=older), Client(tmp_path, house.url, TOKEN) as client:
                client.list()


def test_other_program_is_reported_as_no_drumbeat_server(tmp_path: Path) -> None:
    code = "import http.server as h; s = h.HTTPServer(('127.0.0.1', 0), h.SimpleHTTPRequestHandler); "
    code += "print(s.server_port, flush=True); s.handle_request()"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as other:
        assert other.stdout is not None
        port = other.stdout.readline().strip()
        with (
            pytest.raises(UnreachableError, match="isn't a drumbeat server"),
            Client(url=f"http://127.0.0.1:{port}", token="t") as client,
        ):
            client.list()


@pytest.mark.feature("M1")
def test_stream_continues_after_a_restart_of_the_server(tmp_path: Path) -> None:
    with house_in(tmp_path) as house:
        job = house.submit("streamed")
        agent = house.agent(job)
        agent.say(Phase.ENROLLED)
        agent.log(b"0\n", 0)
        announce(tmp_path, url=house.url)
        with Client(tmp_path, autostart=False) as client:
            events: list[Event] = []
            stream = client.stream(job)
            reading = threading.Thread(target=lambda: events.extend(stream))
            reading.start()
            eventually(lambda: any(isinstance(one, LogPiece) for one in events), within_s=60)
            house.context.stop()
            _restart(house, tmp_path, job)
            reading.join(60)
    assert "".join(one.text for one in events if isinstance(one, LogPiece)) == "0\n1\n2\n3\n"
    lines = [one.n for one in events if isinstance(one, EventView)]
    assert lines == list(range(1, len(lines) + 1)), "nothing twice, nothing left out"
    assert isinstance(events[-1], End)


def _restart(house: House, home: Path, job: str) -> None:
    """Another server on another port takes over, twice; the job goes on and ends."""
    for n in (1, 2):
        with served(house.control, home) as moved:
            announce(home, url=moved.control.addresses.here[0])
            with House(home, house.engine, house.control, moved, moved.control.addresses.here[0]).connected() as other:
                other.agent(job).log(f"{n}\n".encode(), 2 * n)
                eventually(lambda context=moved: context.fanout._signals, within_s=60)
                if n == 2:
                    other.agent(job).log(b"3\n", 6)
                    other.finish(job)
                    eventually(lambda: not other.context.fanout._signals, within_s=60)


def test_a_download_waits_for_a_server_that_starts_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    streaming, tries = Connection.streaming, list[str]()

    def gone_at_first(self: Connection, path: str, **options: Any) -> Any:
        tries.append(path)
        if len(tries) == 1:
            announce(tmp_path)  # Nobody is there.
            threading.Timer(0.3, lambda: announce(tmp_path, url=house.url)).start()
            raise httpx.ConnectError("refused")
        return streaming(self, path, **options)

    monkeypatch.setattr(Connection, "streaming", gone_at_first)
    with house_in(tmp_path) as house:
        job = house.submit("filed")
        house.agent(job).log(b"kept\n", 0)
        announce(tmp_path, url=house.url)
        with Client(tmp_path, autostart=False) as client:
            client.fetch(job, "logs/1.1/0/0.log", tmp_path / "log")
    assert (tmp_path / "log").read_text() == "kept\n"
    assert len(tries) > 1


def test_stream_continues_once_the_database_is_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    events, troubles = job_events._events, [AwayError("database: the connection broke")] * 2

    def troubled(*given: Any) -> Iterator[Event]:
        if troubles:
            raise troubles.pop()
        yield from events(*given)

    monkeypatch.setattr(job_events, "_events", troubled)
    with house_in(tmp_path) as house, Client(tmp_path, house.url, TOKEN) as client:
        job = house.submit("patient")
        house.finish(job)
        assert isinstance([*client.stream(job)][-1], End)
    assert troubles == []


def test_stopped_program_that_starts_the_server_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(autostart, "DEADLINE_S", 0.3)
    with (tmp_path / "start.lock").open("w") as lock, Client(tmp_path) as client:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(UnreachableError, match=r"another program has been starting .* \(Ctrl-Z\)"):
            client.list()
        with house_in(tmp_path) as house:  # It has started it after all.
            announce(tmp_path, url=house.url)
            assert client.list() == []


def test_a_follower_gives_up_after_its_patience(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_events, "RECONNECT_TIMEOUT_S", 0.3)
    with house_in(tmp_path) as house:
        job = house.submit("given-up")
        announce(tmp_path, url=house.url)
        client = Client(tmp_path, autostart=False)
        stream = client.stream(job)
        next(stream)
    with pytest.raises(UnreachableError, match="continues without its server"):
        list(stream)
    client.close()


def test_follower_with_a_time_limit_ends_without_the_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_events, "RECONNECT_TIMEOUT_S", 0.3)
    with house_in(tmp_path) as house:
        job = house.submit("awaited")
        announce(tmp_path, url=house.url)
        place = job_events.StreamPosition(until=time.monotonic() + 60)
        stream = job_events.follow(Connection(ServerLocation(tmp_path), is_starting=False), job, place)
        next(stream)
    place.until = time.monotonic() + 0.1
    assert all(not isinstance(one, End) for one in stream), "and nothing is raised"


def test_a_log_line_is_not_delayed_by_who_follows_slowly(tmp_path: Path) -> None:
    with house_in(tmp_path) as house, Client(tmp_path, house.url, TOKEN) as client:
        job = house.submit("slow")
        agent = house.agent(job)
        slow = client.stream(job)
        next(slow)
        for n in range(40):
            agent.log(b"z" * 250_000, n * 250_000)
        quick = client.stream(job)
        assert sum(len(one.text) for one in _until(quick, 10_000_000)) == 10_000_000
        house.finish(job)
        assert sum(len(one.text) for one in slow if isinstance(one, LogPiece)) == 10_000_000
        quick.close()


def _until(events: Iterator[Event], size: int) -> Iterator[LogPiece]:
    for one in events:
        if isinstance(one, LogPiece):
            yield one
            size -= len(one.text)
            if size <= 0:
                return

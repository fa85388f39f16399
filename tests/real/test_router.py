"""The router and replicas as processes: streams, limits, keys, TLS, slow clients, programs behind."""

from __future__ import annotations

import json
import socket
import ssl
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest

from drumbeat.model.routing_table import RouterListener
from drumbeat.server.access.certificate_authority import Authority
from tests.real.guard import guarded
from tests.support.serving_processes import ENDPOINT, KEY, SECRET, ServingHouse, free_port, wait_for

SCRIPT = """
import json, os, pathlib, time
folder = pathlib.Path(__file__).parent
def init(): pass
def run(data):
    given = json.loads(data)
    if "stream" in given:
        return stream(given["stream"])
    if "die" in given:
        with open(folder.parent / "deaths", "a") as file:
            file.write("x")
        os._exit(9)
    if "spin" in given:
        end = time.monotonic() + given["spin"]
        while time.monotonic() < end: pass
    if "size" in given:
        return "x" * given["size"]
    return {"pid": os.getpid(), "got": given}
def stream(count):
    try:
        for number in range(count):
            yield {"number": number}
            if number == 0:
                (folder / "first").touch()
                while not (folder / "go").exists(): time.sleep(0.005)
    finally:
        (folder / "closed").touch()
"""
PROGRAM = '''
"""A small server that speaks as OpenAI's do: `python program.py PORT`."""
import json, sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def log_message(self, *_): pass
    def do_GET(self):
        self.answer(200 if self.path == "/health" else 404, b"{}")
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path != "/v1/chat/completions" or "messages" not in body:
            return self.answer(422, b'{"error": {"message": "messages are missing"}}')
        if not body.get("stream"):
            return self.answer(200, json.dumps({"choices": [{"message": {"content": "hello"}}]}).encode())
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for piece in [*[json.dumps({"choices": [{"delta": {"content": one}}]}) for one in "hello"], "[DONE]"]:
            data = f"data: {piece}\\n\\n".encode()
            self.wfile.write(b"%x\\r\\n%b\\r\\n" % (len(data), data))
            self.wfile.flush()
        self.wfile.write(b"0\\r\\n\\r\\n")
    def answer(self, status, body):
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
'''
MIB = 1 << 20


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServingHouse]:
    """A router with one replica of SCRIPT, and a second deployment for what dies."""
    folder = tmp_path_factory.mktemp("serving")
    folder.chmod(0o700)
    made = ServingHouse(folder)
    with guarded(folder):
        try:
            made.deploy("blue", ("blue-0", "blue-1"), concurrency=4, timeout_ms=20_000)
            made.deploy("poison", ("p-0", "p-1", "p-2"), concurrency=1, instances=3, timeout_ms=20_000)
            made.deploy("careful", ("c-0", "c-1"), instances=2, timeout_ms=20_000, has_retry=False)
            made.deploy("program", ("program-0",), concurrency=2, timeout_ms=20_000, passes_errors=True)
            made.start_router()
            made.start_replica("blue", "blue-0", SCRIPT, threads=4)
            made.await_permits("blue", 4)
            yield made
        finally:
            made.close()


@pytest.fixture
def signals(house: ServingHouse) -> Iterator[Path]:
    """The folder where the script leaves its signs, without those of the test before."""
    folder = house.folder / "blue-0"
    for name in ("first", "go", "closed"):
        (folder / name).unlink(missing_ok=True)
    yield folder
    (folder / "go").touch()


@pytest.mark.feature("R2")
def test_pieces_of_an_answer_reach_the_client_while_the_script_runs(house: ServingHouse, signals: Path):
    headers = {"Authorization": f"Bearer {KEY}", "Accept": "text/event-stream"}
    url = f"http://127.0.0.1:{house.port}/endpoints/{ENDPOINT}/score"
    with httpx.stream("POST", url, headers=headers, json={"stream": 3}, timeout=20) as answer:
        assert answer.headers["content-type"] == "text/event-stream"
        events = answer.iter_lines()
        assert next(events) == 'data: {"number": 0}'
        assert not (signals / "closed").exists()
        (signals / "go").touch()
        assert [one for one in events if one] == ['data: {"number": 1}', 'data: {"number": 2}']


def test_generator_of_a_client_that_goes_away_is_closed(house: ServingHouse, signals: Path):
    with socket.create_connection(("127.0.0.1", house.port)) as client:
        body = json.dumps({"stream": 1_000_000}).encode()
        client.sendall(
            f"POST /endpoints/{ENDPOINT}/score HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {KEY}\r\n"
            f"Content-Length: {len(body)}\r\n\r\n".encode()
            + body
        )
        wait_for((signals / "first").exists, "the first piece")
    (signals / "go").touch()
    wait_for((signals / "closed").exists, "the generator's end")
    house.await_permits("blue", 4)


def test_key_does_not_reach_the_script_and_keys_change_without_a_gap(house: ServingHouse):
    assert house.call(content=b"{}").status_code == 200
    house.keys = (KEY, "second")
    house.write()
    second = {"Authorization": "Bearer second"}
    wait_for(lambda: house.call(content=b"{}", headers=second).status_code == 200, "the second key")
    assert house.call(content=b"{}").status_code == 200
    house.keys = (KEY,)
    house.write()
    wait_for(lambda: house.call(content=b"{}", headers=second).status_code == 401, "the end of the second key")


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [("/score", {"Authorization": "Bearer no"}, 401), ("/score", {"azureml-model-deployment": "none"}, 404),
     ("/nothing", {}, 424)],
)  # fmt: skip
def test_refusals_have_azures_statuses(house: ServingHouse, path: str, headers: dict[str, str], status: int):
    assert house.call(path, headers=headers, content=b"{}").status_code == status


def test_refusal_of_head_has_no_body_that_the_next_answer_would_follow(house: ServingHouse):
    requests = b"".join(b"%b /nothing HTTP/1.1\r\nHost: x\r\n\r\n" % method for method in (b"HEAD", b"GET"))
    with socket.create_connection(("127.0.0.1", house.port)) as client:
        client.settimeout(20)
        client.sendall(requests)
        answers = b""
        while not answers.endswith(b"}"):
            answers += client.recv(MIB)
    head, second, body = answers.split(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 404 ")
    assert second.startswith(b"HTTP/1.1 404 ")
    assert json.loads(body) == {"message": "Endpoints are at /endpoints/NAME/score."}


def test_request_that_takes_too_long_gets_408_and_its_permit_comes_back(house: ServingHouse):
    house.change("blue", timeout_ms=300)
    house.write()
    try:
        wait_for(lambda: house.call(json={"spin": 0.8}).status_code == 408, "the time-out")
        house.await_permits("blue", 4)
        assert house.call(json={}).status_code == 200
    finally:
        house.change("blue", timeout_ms=20_000)
        house.write()
    wait_for(lambda: house.call(json={"spin": 0.4}).status_code == 200, "the longer time")


def test_body_of_10_mib_passes_and_one_byte_more_gets_413(house: ServingHouse):
    rest = b'{"size": 0, "more": ""}'
    whole = rest[:-2] + b"x" * (10 * MIB - len(rest)) + rest[-2:]
    assert len(whole) == 10 * MIB
    assert house.call(content=whole).status_code == 200
    assert house.call(content=whole + b" ").status_code == 413

    def pieces() -> Iterator[bytes]:
        for _ in range(11):
            yield b" " * MIB

    # Without a length, too, and while the client still sends.
    assert house.call(content=pieces()).status_code == 413


def test_answer_of_20_mib_reaches_a_client_that_reads_slowly_and_holds_up_no_other(house: ServingHouse):
    body = json.dumps({"size": 20 * MIB}).encode()
    with socket.create_connection(("127.0.0.1", house.port)) as client:
        client.settimeout(20)
        client.sendall(
            f"POST /endpoints/{ENDPOINT}/score HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {KEY}\r\n"
            f"Connection: close\r\nContent-Length: {len(body)}\r\n\r\n".encode()
            + body
        )
        for _ in range(8):  # As many as there are permits, twice: those of others aren't taken.
            assert house.call(json={}).status_code == 200
        size = 0
        while piece := client.recv(MIB):
            size += len(piece)
    assert size > 20 * MIB


@pytest.mark.parametrize(
    "sent",
    [
        b"nonsense\r\n\r\n",
        b"POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
    ],
)
def test_request_that_can_be_read_in_two_ways_is_refused(house: ServingHouse, sent: bytes):
    with socket.create_connection(("127.0.0.1", house.port)) as client:
        client.settimeout(20)
        client.sendall(sent)
        assert client.recv(1000).startswith(b"HTTP/1.1 400 ")


@pytest.mark.thorough
def test_request_that_kills_its_replica_kills_two_and_gets_502(house: ServingHouse):
    for number in range(3):
        house.start_replica("poison", f"p-{number}", SCRIPT)
    house.await_permits("poison", 3)
    named = {"azureml-model-deployment": "poison"}
    answer = house.call(json={"die": 1}, headers=named)
    assert answer.status_code == 502
    assert (house.folder / "deaths").read_text() == "xx"
    assert house.call(json={}, headers=named).status_code == 200


@pytest.mark.thorough
def test_request_that_must_not_run_twice_kills_one_replica_only(house: ServingHouse):
    house.start_replica("careful", "c-0", SCRIPT)
    house.start_replica("careful", "c-1", SCRIPT)
    house.await_permits("careful", 2)
    answer = house.call(json={"die": 1}, headers={"azureml-model-deployment": "careful"})
    assert answer.status_code == 502
    assert house.permits("careful") == 1


@pytest.mark.feature("R2")
def test_program_with_routes_of_its_own_is_passed_through_with_its_streams(house: ServingHouse):
    (house.folder / "program.py").write_text(PROGRAM)
    port = free_port()
    command = [sys.executable, str(house.folder / "program.py"), str(port)]
    path = "/v1/chat/completions"
    behind = {"port": port, "command": command, "readiness": {"path": "/health"}, "liveness": {"path": "/health"}}
    process = house.start_replica("program", "program-0", behind={**behind, "scoring_path": path})
    house.await_permits("program", 2)
    named = {"azureml-model-deployment": "program"}
    talk = {"messages": [{"role": "user", "content": "hi"}]}
    assert house.call(path, json=talk, headers=named).json()["choices"][0]["message"]["content"] == "hello"
    streamed = house.call(path, json={**talk, "stream": True}, headers=named)
    assert streamed.headers["content-type"] == "text/event-stream"
    assert streamed.text.count("data: ") == 6
    assert streamed.text.endswith("data: [DONE]\n\n")
    wrong = house.call(path, json={}, headers=named)
    assert (wrong.status_code, wrong.json()["error"]["message"]) == (422, "messages are missing")
    assert house.call(headers=named, json=talk).json()["choices"], "/score leads to the scoring route"
    assert house.start_replica("program", "program-1", behind=behind).wait(20) == 3, "the port is taken"
    process.terminate()
    assert process.wait(20) == 0
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.1", port))


def test_replica_with_a_wrong_secret_is_refused_and_says_so(house: ServingHouse):
    process = house.start_replica("blue", "blue-1", SCRIPT, router={"secret": "wrong"})
    wait_for(lambda: "No replica blue-1 of ships/blue has this secret" in house.log(), "the refusal")
    assert "blue-1" not in house.entry("blue")["replicas"]
    process.terminate()
    assert process.wait(20) == 0


@pytest.mark.feature("R2")
def test_replicas_and_clients_of_other_machines_come_by_tls(house: ServingHouse, tmp_path: Path):
    now = datetime.now(UTC)
    authority = Authority.load_or_create(tmp_path / "ca.pem", now)
    certificate = house.folder / "certificate.pem"
    certificate.write_bytes(authority.issue(["127.0.0.1"], now, timedelta(days=1)).pem)
    door, front = free_port(), free_port()
    house.certificate = str(certificate)
    house.more = (
        RouterListener("127.0.0.1", door, for_replicas=True),
        RouterListener("127.0.0.1", front, endpoint=ENDPOINT, has_tls=True),
    )
    house.write()
    wait_for(lambda: str(front) in json.dumps(house.numbers()["listeners"]), "the listeners")
    access = {"addresses": [f"https://127.0.0.1:{door}"], "ca": authority.pem, "secret": SECRET.format("blue-1")}
    process = house.start_replica("blue", "blue-1", SCRIPT, router=access, worker_count=2)
    house.await_permits("blue", 8)
    context = ssl.create_default_context(cadata=authority.pem)
    pids: set[int] = set()
    with httpx.Client(verify=context, headers={"Authorization": f"Bearer {KEY}"}) as client:
        for _ in range(16):
            answer = client.post(f"https://127.0.0.1:{front}/score", json={"tls": 1})
            assert (answer.status_code, answer.json()["got"]) == (200, {"tls": 1})
            pids.add(answer.json()["pid"])
    assert len(pids) == 3  # One of the local replica, two workers of the other one.
    process.terminate()
    assert process.wait(20) == 0
    house.await_permits("blue", 4)


@pytest.mark.feature("R2")
def test_router_and_replicas_of_other_machines_recognize_one_another(house: ServingHouse, tmp_path: Path):
    now = datetime.now(UTC)
    authority, another = (Authority.load_or_create(tmp_path / name, now) for name in ("ca.pem", "another.pem"))
    certificate, door = house.folder / "door.pem", free_port()
    house.certificate = str(certificate)
    house.more = (RouterListener("127.0.0.1", door, for_replicas=True),)
    house.write()
    wait_for(lambda: f"can't listen at 127.0.0.1:{door}" in house.log(), "the missing certificate")
    certificate.write_bytes(another.issue(["127.0.0.1"], now, timedelta(days=1)).pem)
    wait_for(lambda: str(door) in json.dumps(house.numbers()["listeners"]), "the listener, once it is there")

    access = {"addresses": [f"https://127.0.0.1:{door}"], "ca": authority.pem, "secret": SECRET.format("blue-1")}
    process = house.start_replica("blue", "blue-1", SCRIPT, router=access)
    wait_for(lambda: "CERTIFICATE_VERIFY_FAILED" in house.log(), "a router of another authority")
    certificate.write_bytes(authority.issue(["127.0.0.1"], now, timedelta(days=1)).pem)  # The server renews it.
    house.await_permits("blue", 8)
    process.terminate()
    assert process.wait(20) == 0

    begin = len(house.log())  # An earlier test has had a refusal, too.
    process = house.start_replica("blue", "blue-1", SCRIPT, router={**access, "secret": "guessed"})
    wait_for(lambda: "No replica blue-1 of ships/blue has this secret" in house.log()[begin:], "the refusal")
    assert "blue-1" not in house.entry("blue")["replicas"]
    process.terminate()
    assert process.wait(20) == 0


def test_numbers_are_for_the_user_and_have_every_deployment(house: ServingHouse):
    text = house.numbers("/metrics")
    assert f'drumbeat_router_permits{{endpoint="{ENDPOINT}",deployment="blue"}} 4\n' in text
    assert (house.folder / "router.sock").stat().st_mode & 0o777 == 0o600
    assert (house.folder / "table.json").stat().st_mode & 0o777 == 0o600


def test_table_that_is_broken_leaves_the_last_one_in_use(house: ServingHouse):
    (house.folder / "table.json").write_text("{")
    wait_for(lambda: "and the last one stays" in house.log(), "the warning")
    assert house.call(json={}).status_code == 200
    house.write()


def test_silent_client_with_half_a_request_keeps_no_replica(house: ServingHouse):
    sockets = [socket.create_connection(("127.0.0.1", house.port)) for _ in range(8)]
    for one in sockets:
        one.sendall(
            f"POST /endpoints/{ENDPOINT}/score HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {KEY}\r\n"
            "Content-Length: 100\r\n\r\nhalf".encode()
        )
    assert house.call(json={}).status_code == 200
    assert house.entry("blue")["busy"] == 0
    for one in sockets:
        one.close()

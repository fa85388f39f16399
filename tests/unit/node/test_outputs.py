"""What is kept of the outputs where not all can be."""

import threading
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from drumbeat.model import home_socket
from drumbeat.model.agent import Enrolment
from drumbeat.model.errors import StorageError
from drumbeat.model.plan import Plan
from drumbeat.node.agent.output_upload import OutputUpload
from drumbeat.node.platform.agent_log import Journal
from drumbeat.node.platform.server_link import ServerLink
from tests.support.agent_server import HomeSocketServer


class Taker:
    """A server that takes all it is given."""

    def __init__(self) -> None:
        self.files: dict[str, Any] = {}
        self.put_ones: set[str] = set()
        self.came = 0

    def put(self, path: str, offset: int, data: bytes, hole: int = 0) -> int:
        self.put_ones.add(unquote(path).removeprefix("outputs/"))
        self.came += len(data)
        return offset + len(data) + hole

    def commit(self, files: dict[str, Any]) -> list[str]:
        self.files = dict(files)
        return []


def outputs_of(folder: Path, server: Taker) -> OutputUpload:
    link: Any = server
    return OutputUpload(str(folder), link, Journal(str(folder.parent / "journal")), lambda _: None)


def test_of_more_outputs_than_the_server_lists_the_first_are_kept_and_only_they_are_sent(tmp_path: Path):
    (tmp_path / "outputs").mkdir()
    for number in range(9):
        (tmp_path / "outputs" / f"模型 \n{number}").write_text("x")
    server = Taker()
    why = "the list of the node's outputs would be longer than 640 bytes: pack them into fewer files"
    with pytest.raises(StorageError, match=f"4 outputs, this one first, could not be kept: {why}") as told:
        outputs_of(tmp_path / "outputs", server).send(most_listed=640)
    assert told.value.where == f"{tmp_path}/outputs/模型 \n5"
    assert set(server.files) == server.put_ones == {f"模型 \n{number}" for number in range(5)}


def body_of(files: dict[str, dict[str, Any]], root: Path) -> bytes:
    """What crosses the wire when these are committed."""
    heard = list[bytes]()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            heard.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b'{"missing": []}')

        def log_message(self, format: str, *args: object) -> None:
            pass

    address = home_socket.address_in(root)
    with HomeSocketServer(home_socket.socket_path(address), Handler) as server:
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        plan = Plan("j", "e", "pytorch", 1, 1, "true", ())
        enrolment = Enrolment("j", 1, 0, (address,), "s", str(root), "/c", plan)
        assert ServerLink(enrolment).commit(files) == []
        thread.join()
    return heard[0]


def test_list_of_outputs_is_as_long_as_counted(tmp_path: Path):
    (tmp_path / "outputs").mkdir()
    for number in range(4):
        (tmp_path / "outputs" / f"模型{number}\x01").write_text("x" * 12)
    server = Taker()
    each = len("模型".encode()) + len('"1\\u0001":{"size":,"sha256":""},') + 20 + 64
    outputs_of(tmp_path / "outputs", server).send(most_listed=12 + 4 * each)
    assert len(server.files) == 4
    assert len(body_of(server.files, tmp_path)) == 12 + 4 * (each - len("00000000000000000012") + len("12")) - len(",")


def test_unreadable_output_is_lost_and_a_broken_link_is_no_output(tmp_path: Path):
    (tmp_path / "outputs").mkdir()
    (tmp_path / "outputs" / "nowhere").symlink_to("gone")
    (tmp_path / "outputs" / "circle").symlink_to("circle")
    (tmp_path / "outputs" / "inside a file").symlink_to("good/x")
    (tmp_path / "outputs" / "hidden").symlink_to("x" * 300)  # stat() fails, and not for want of a file.
    (tmp_path / "outputs" / "good").write_text("x")
    server = Taker()
    with pytest.raises(StorageError, match="an output could not be kept: File name too long") as told:
        outputs_of(tmp_path / "outputs", server).send()
    assert told.value.where == f"{tmp_path}/outputs/hidden"
    assert set(server.files) == {"good"}


def test_hole_of_an_output_is_sent_as_a_hole(tmp_path: Path):
    (tmp_path / "outputs").mkdir()
    with (tmp_path / "outputs/map.bin").open("wb") as file:
        file.write(b"x" * 5000)
        file.truncate(50 << 20)
    server = Taker()
    outputs_of(tmp_path / "outputs", server).send()
    assert server.files["map.bin"]["size"] == 50 << 20
    assert server.came <= 1 << 20

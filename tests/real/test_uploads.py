"""Large files on their way into stores: what broke off is gone on with by parts, only with the same content."""
# ruff: noqa: F811 - fixtures of another module are imported, and are arguments

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from drumbeat.jobfile.data.datastores import datastore_from
from drumbeat.server.data.stores import StoreAccess
from drumbeat.server.data.stores.azure_blocks import BLOCK
from drumbeat.server.data.stores.s3 import PART

from .house import DRUMBEAT, House, until
from .relays import Relay, a_relay
from .store_servers import Azurite, S3Server, azurite, s3_server  # noqa: F401

pytestmark = [pytest.mark.feature("D10", "D3"), pytest.mark.xdist_group("stores")]

URI = "azureml://datastores/here/paths/folder"
SIZE = 3 * PART + 1000
HALF = 2 * PART + 500
"""So much has been handed over when the process is killed: two parts of S3's, four blocks of Azure's."""

WRITES_HALF = """
import json, os, sys
from drumbeat.jobfile.data.datastores import datastore_from
from drumbeat.server.data.stores import StoreAccess

told = json.loads(sys.stdin.readline())
def pieces():
    with open(told["file"], "rb") as file:
        for at in range(0, told["half"], 1 << 16):
            yield file.read(min(1 << 16, told["half"] - at))
    print("half", flush=True)
    sys.stdin.readline()

StoreAccess(lambda: {"here": datastore_from(told["store"], "test")}).write(told["uri"], "big", pieces(), told["size"])
"""


@dataclass(frozen=True)
class Place:
    """A store, its way through a relay that counts, and the bytes of a part there."""

    store: dict[str, Any]
    relay: Relay
    part: int
    left: Callable[[], int]
    """How many uploads of `folder/big` are begun."""

    @property
    def access(self) -> StoreAccess:
        made = datastore_from(self.store, "test")
        return StoreAccess(lambda: {"here": made})

    def killed_in_the_middle(self, file: Path) -> None:
        """A process that writes the file is killed with -9 when half of it is there."""
        told = {"store": self.store, "file": str(file), "half": HALF, "size": SIZE, "uri": URI}
        writing = subprocess.Popen([sys.executable, "-c", WRITES_HALF], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        try:
            assert writing.stdin is not None
            assert writing.stdout is not None
            writing.stdin.write(json.dumps(told).encode() + b"\n")
            writing.stdin.flush()
            assert writing.stdout.readline() == b"half\n"
        finally:
            writing.kill()
            writing.communicate()

    def write(self, file: Path) -> int:
        """Writes all of the file; gives the bytes that the store was sent for it."""
        before, access = self.relay.sent, self.access
        with file.open("rb") as opened:
            written = access.write(URI, "big", iter(lambda: opened.read(1 << 20), b""), SIZE)
        assert written.sha256 == hashlib.sha256(file.read_bytes()).hexdigest()
        access.close()
        return self.relay.sent - before

    def has(self, content: bytes) -> bool:
        access = self.access
        (listed,) = access.listing(URI, is_file=False).files
        came = b"".join(access.read(URI, listed))
        access.close()
        return came == content


@contextmanager
def azure_place(azurite: Azurite) -> Iterator[Place]:
    container = azurite.container()
    with a_relay(azurite.endpoint) as relay:
        store = {
            "name": "here", "type": "azure_blob", "account_name": azurite.account, "container_name": container,
            "endpoint": f"http://127.0.0.1:{relay.port}", "credentials": {"account_key": azurite.key},
        }  # fmt: skip

        def left() -> int:
            with azurite.service() as service:
                return int(bool(service.get_blob_client(container, "folder/big").get_block_list("uncommitted")[1]))

        yield Place(store, relay, BLOCK, left)


@contextmanager
def s3_place(server: S3Server) -> Iterator[Place]:
    bucket = server.bucket()
    with a_relay(server.endpoint) as relay:
        store = {
            "name": "here", "type": "s3", "bucket": bucket, "endpoint": f"http://127.0.0.1:{relay.port}",
            "credentials": {"access_key_id": server.key_id, "secret_access_key": server.key},
        }  # fmt: skip
        yield Place(
            store, relay, PART, lambda: len(server.client().list_multipart_uploads(Bucket=bucket).get("Uploads", ()))
        )


@pytest.fixture(params=[pytest.param("azure", marks=pytest.mark.thorough), "s3"])
def place(request: pytest.FixtureRequest, azurite: Azurite, s3_server: S3Server) -> Iterator[Place]:
    with azure_place(azurite) if request.param == "azure" else s3_place(s3_server) as place:
        yield place


@pytest.fixture
def big(tmp_path: Path) -> Path:
    file = tmp_path / "big"
    file.write_bytes(os.urandom(SIZE))
    return file


def test_what_a_killed_upload_left_isnt_sent_again(place: Place, big: Path):
    place.killed_in_the_middle(big)
    assert place.left() == 1
    there = HALF // place.part * place.part
    assert place.write(big) < SIZE - there + place.part // 4
    assert place.has(big.read_bytes())
    assert place.left() == 0, "nothing begun is left behind"


@pytest.mark.thorough
def test_what_has_another_content_by_now_is_sent_and_nothing_of_the_old_is_in_it(place: Place, big: Path):
    place.killed_in_the_middle(big)
    content = bytearray(big.read_bytes())
    content[10] ^= 1  # In the first part.
    big.write_bytes(content)
    there = HALF // place.part * place.part
    sent = place.write(big)
    assert SIZE - there + place.part <= sent < SIZE - there + place.part * 5 // 4
    assert place.has(bytes(content))


@pytest.mark.thorough
def test_a_file_that_ends_too_early_isnt_put_there_and_can_be_sent_again(place: Place, big: Path):
    access = place.access
    with pytest.raises(Exception, match="ended after"):
        access.write(URI, "big", iter([big.read_bytes()[:HALF]]), SIZE)
    access.close()
    place.write(big)
    assert place.has(big.read_bytes())


@pytest.mark.thorough
def test_a_person_whose_upload_was_killed_types_the_command_again(house: House, azurite: Azurite, tmp_path: Path):
    # What the kernel holds between client and server comes after the client's death as well: it mustn't be the rest.
    size = HALF + BLOCK + sum(_socket_buffer_size(one) for one in ("wmem", "rmem"))
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "big").write_bytes(os.urandom(size))
    with azure_place(azurite) as place:
        house.client.create_datastore({**place.store, "name": "resumed"})
        command = ["data", "upload", str(tmp_path / "set"), "azureml://datastores/resumed/paths/folder"]
        place.relay.most = place.relay.sent + HALF
        others = _connections(house)
        first = subprocess.Popen([DRUMBEAT, *command], env=house.environment, stdout=subprocess.DEVNULL)
        until(lambda: place.relay.sent > HALF - (1 << 20), what="half of it")
        assert _connections(house) > others
        first.kill()
        first.wait()
        place.relay.most = None
        until(lambda: _connections(house) <= others, what="the server to have read what the kernel held")
        sent = place.relay.sent
        done = house.run(*command)
        assert done.returncode == 0, done.stderr
        assert place.relay.sent - sent < size - 3 * BLOCK + (1 << 20), "the blocks that were there weren't sent again"
        back = house.run("data", "download", command[-1], tmp_path / "back")
        assert back.returncode == 0, back.stderr
        assert (tmp_path / "back" / "big").read_bytes() == (tmp_path / "set" / "big").read_bytes()


def _connections(house: House) -> int:
    """The number of sockets that the server has open in its home; each has the name by which the listener was bound."""
    name = str(house.home / ".server.sock.")
    return sum(line.laddr.startswith(name) for line in house.server().net_connections("unix"))


def _socket_buffer_size(kind: str) -> int:
    """Bytes that the kernel holds for one side of a Unix socket (socket(7))."""
    return int(Path(f"/proc/sys/net/core/{kind}_default").read_text())

"""A crowd of connections on which nothing whole is asked: it costs the server nothing that others need."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.attacks.strangers import needs_stranger, stranger
from tests.real.house import House, a_house, until

FILES = 300
"""That the server may have open."""

# Opens so many connections to a port, sends half a head on each, says so, and keeps them as long as it is let.
HALF_HEADS = """
lines = []
for i in range(int(sys.argv[2])):
    lines.append(socket.create_connection(("127.0.0.1", int(sys.argv[1])), 20))
    try:
        lines[-1].sendall([b"GET /api/v1/version HTTP/1.1\\r\\nHost: x\\r\\nX-Half: ", b"", b"\\r\\n"][i % 3])
    except OSError:
        pass
print("open", flush=True)
time.sleep(600)
"""


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    """A server that may have few files open."""
    with a_house(tmp_path) as there:
        line = f"ulimit -n {FILES}; exec {sys.executable} -m drumbeat.server --home {there.home}"
        with subprocess.Popen(["sh", "-c", line]) as server:
            until((there.home / "server.json").exists, what="the start of the server")
            yield there
            server.terminate()


@needs_stranger
@pytest.mark.feature("X1")
def test_crowd_that_sends_half_heads_keeps_no_command_out(house: House):
    url = house.client.status().url
    with stranger(HALF_HEADS, url.rpartition(":")[2], 2 * FILES) as crowd:
        assert crowd.stdout
        assert crowd.stdout.readline() == "open\n"
        assert len(list(Path(f"/proc/{house.client.status().pid}/fd").iterdir())) < FILES - 50
        assert house.run("list").returncode == 0

"""Another Unix user of the server's machine: learns no secret, reaches no file of the home, starts nothing."""

from __future__ import annotations

import json

import pytest

from tests.attacks.strangers import needs_stranger, run_as_stranger
from tests.attacks.targets import Attempt
from tests.real.house import House

READS = """
for path in sys.argv[1:]:
    try:
        pathlib.Path(path).read_bytes()
    except PermissionError:
        print("refused")
"""

ASKS = """
host, port, path = sys.argv[1], int(sys.argv[2]), sys.argv[3]
connection = http.client.HTTPConnection(host, port, timeout=10)
connection.request("GET", path)
print(connection.getresponse().status)
"""


@needs_stranger
@pytest.mark.feature("X8")
def test_other_user_reads_no_file_of_the_home(house: House, attempt: Attempt):
    enrolment = next(house.home.glob(f"nodes/*/{attempt.node}/enrolment.json"))
    secrets = [house.home / name for name in ("token", "key", "server.json", "drumbeat.db")]
    assert run_as_stranger(READS, *secrets, enrolment).split() == ["refused"] * 5


@needs_stranger
def test_other_user_without_a_token_is_told_nothing(house: House):
    url = json.loads((house.home / "server.json").read_text())["url"]
    host, _, port = url.removeprefix("http://").partition(":")
    assert run_as_stranger(ASKS, host, port, "/api/v1/jobs").split() == ["401"]

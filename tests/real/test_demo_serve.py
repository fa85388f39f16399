"""`make demo-serve` as a newcomer runs it, and again."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from drumbeat.model.errors import NotFoundError

from .house import House, line_of

ROOT = Path(__file__).parents[2]
ENDPOINT = "demo-serve"


def show_serving(house: House, **variables: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "tools.demo_serve"], env={**house.environment, **variables}, cwd=ROOT,
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.thorough
@pytest.mark.feature("R2")
def test_demo_of_serving_loses_no_request_twice_in_a_row_and_leaves_no_endpoint(own_house: House) -> None:
    for variables in ({"KEEP": "yes"}, {}):
        printed = show_serving(own_house, **variables)
        pattern = r"([\d,]+) requests, p50 \d+ ms, p99 \d+ ms, longest \d+ ms, failures = 0$"
        counted = re.search(pattern, printed, re.MULTILINE)
        assert counted, printed
        assert int(counted[1].replace(",", "")) > 100
        right = re.search(r"accuracy +([\d.]+)%", printed)
        assert right, printed
        assert float(right[1]) > 90
        picture = ROOT / re.search(r"picture +(\S+)", printed)[1]  # type: ignore[index]
        assert "kill -9 of a replica" in picture.read_text()
        shutil.rmtree(picture.parent)
        if variables:
            body = '{"data": [[[0, 0], [0, 255]]]}'
            answer = own_house.run("online-endpoint", "invoke", ENDPOINT, "--data", body)
            assert '"labels"' in answer.stdout, answer.stderr
    with pytest.raises(NotFoundError):
        own_house.client.online_endpoint(ENDPOINT)
    assert not [one for one in own_house.processes() if "drumbeat.scoring" in line_of(one)]
    assert own_house.run("model", "verify", "demo-digits").returncode == 0

"""Images, tables, histograms and texts by `drumbeat.log`: in a rank's own process, against the endpoint of a node."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from drumbeat.launchers.tracking_variables import variables
from drumbeat.model.metrics import run_id

from .house import House, until
from .metrics_node import PLAN, Node, a_node
from .test_drumbeat_log import run

pytestmark = pytest.mark.feature("M16")

SCRIPT = """
import drumbeat
from drumbeat.rank.media import png
PNG = png(bytes(12), 2, 2, 3)
for step in (0, 5):
    drumbeat.log(step=step, loss=1.0, **{
        "val/samples": [drumbeat.Image(PNG, caption="a cat"), drumbeat.Image(PNG)],
        "sample": drumbeat.Image(PNG),
        "rows": drumbeat.Table(["a"], [[step]]),
        "weights": drumbeat.Histogram([1, 2, 2], num_bins=2),
        "said": drumbeat.Text(f"at {step}"),
    })
drumbeat.log(counted=drumbeat.Text("first"))
drumbeat.log(counted=drumbeat.Text("second"))
"""
LARGE = """
import drumbeat
image = drumbeat.Image(bytes(1 << 30))
drumbeat.log(step=1, large=image, loss=0.5)
drumbeat.log(step=2, **{"a:b": drumbeat.Text("x")})
drumbeat.log(step=3, loss=0.25)
print("trained on")
"""


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    with a_node(tmp_path) as made:
        yield made


def kept(node: Node) -> dict[str, bytes]:
    """What lies among the outputs of the node, times left out."""
    folder = node.root / "outputs/mlflow-artifacts" / run_id("j")
    files = [one for one in folder.rglob("*") if one.is_file()]
    return {re.sub(r"timestamp\+\d+", "t", str(one.relative_to(folder))): one.read_bytes() for one in files}


def test_all_that_a_rank_logs_by_step_lies_among_the_outputs_and_comes_to_the_server_early(node: Node):
    assert run(SCRIPT, **variables(PLAN, node.address, 1)).stderr == ""
    files = kept(node)
    of_a_step = ["images/val~samples+step+5+t+1-0.png", "images/val~samples+step+5+t+1-1.png"]
    assert {*of_a_step, "images/sample+step+0+t+1-0.png"} <= files.keys()
    assert json.loads(files["images/val~samples+step+5+t+1-0.captions.json"]) == ["a cat", ""]
    assert json.loads(files["tables/rows+step+5+t+1-0.json"]) == {"columns": ["a"], "data": [[5]]}
    assert json.loads(files["histograms/weights+step+0+t+1-0.json"])["counts"] == [1, 2]
    assert files["texts/said+step+5+t+1-0.txt"] == b"at 5"
    assert [files[f"texts/counted+step+{step}+t+1-0.txt"] for step in (0, 1)] == [b"first", b"second"]
    until(lambda: len(node.server.files) == len(files), what="the files at the server")
    assert set(node.server.files.values()) == set(files.values())
    assert all(path.startswith(f"{run_id('j')}/artifacts/") for path in node.server.files)
    assert [one.step for one in node.server.points(1)] == [0, 5]


def test_what_is_too_large_is_named_and_the_training_goes_on(node: Node):
    done = run(LARGE, **variables(PLAN, node.address, 0))
    assert "'large' is not kept: an image has at most 16 MiB, and this one has 1,024.0" in done.stderr
    assert "'a:b' is not kept: its name must have 1 to 150 letters" in done.stderr
    assert done.stdout == "trained on\n"
    until(lambda: [one.value for one in node.server.points()] == [0.5, 0.25], what="the numbers")
    assert kept(node) == {}


def test_files_wait_for_a_server_that_is_away(node: Node):
    node.server.is_away = True
    run(SCRIPT, **variables(PLAN, node.address, 0))
    assert len(kept(node)) == 16
    assert node.server.files == {}
    node.server.is_away = False
    until(lambda: len(node.server.files) == 16, what="the files at the server")


def test_an_endpoint_refuses_files_that_are_none_of_a_step(node: Node):
    for words in ("kind=images&ending=svg", "kind=x&ending=png", "kind=images&ending=png&name=../../x", "kind=images"):
        name = "" if "name=" in words else "&name=a"
        status, answer = node.post(f"/media?{words}{name}&step=1&at_ms=1&index=0", {})
        assert (status, answer["error_code"]) == (400, "INVALID_PARAMETER_VALUE"), words
    assert kept(node) == {}


JOB = """
import os, pathlib, time
import drumbeat, mlflow, numpy
for step in (0, 10):
    image = numpy.full((4, 4, 3), step, numpy.uint8)
    drumbeat.log(step=step, samples=[drumbeat.Image(image, caption="own"), drumbeat.Image(image)])
    mlflow.log_image(image, key="val/dogs", step=step)
while not os.path.exists(os.environ["GO"]):
    time.sleep(0.05)
"""


@pytest.mark.thorough
def test_images_of_a_running_job_are_at_the_server_and_stay_when_it_has_ended(own_house: House):
    go = own_house.folder / "go"
    own_house.script(JOB)
    variables = json.dumps({"GO": str(go), "MLFLOW_DISABLE_TELEMETRY": "true", "GIT_PYTHON_REFRESH": "quiet"})
    file = own_house.job_file(
        command="python t.py", code=".", drumbeat="{environment: current}", environment_variables=variables
    )
    done = own_house.run("run", file, "--name", "drawn", "--detach")
    assert done.returncode == 0, done.stdout + done.stderr

    def images() -> list[str]:
        files = [one.path.rpartition("/")[2] for one in own_house.client.files("drawn") if "/images/" in one.path]
        return sorted(re.sub(r"timestamp\+\d+|[0-9a-f-]{36}", "t", one) for one in files)

    own = [f"samples+step+{step}+t+0-0.{ending}" for step in (0, 10) for ending in ("captions.json", "png")]
    own += [f"samples+step+{step}+t+0-1.png" for step in (0, 10)]
    of_mlflow = [f"val~dogs+step+{step}+t+t{end}" for step in (0, 10) for end in ("+compressed.webp", ".png")]
    until(lambda: images() == sorted([*own, *of_mlflow]), what="the images")
    assert own_house.client.get("drawn").state == "running"
    go.touch()
    until(lambda: own_house.client.get("drawn").state == "completed", what="the end")
    assert images() == sorted([*own, *of_mlflow])

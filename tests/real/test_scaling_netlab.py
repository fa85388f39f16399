"""The nodes of a netlab come when a job needs them, and go when none does: 0 → N → 0."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from drumbeat.engines.netlab.lab import require_tools
from drumbeat.model.errors import EngineError, RefusedError, SpecError

from .house import House, a_house, until

pytestmark = pytest.mark.feature("C1", "C7")


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    try:
        require_tools()
    except EngineError as error:
        pytest.skip(str(error))
    with a_house(tmp_path) as house:
        yield house
        house.client.delete_compute("lab")


def states(house: House) -> list[str]:
    return [str(one.state) for one in house.client.compute("lab").machines]


def submitted(house: House, command: str, nodes: int = 1) -> str:
    file = house.job_file(command=f'"{command}"', compute="lab", resources=f"{{instance_count: {nodes}}}")
    return house.client.submit(file).name


def test_nodes_come_for_a_job_and_go_after_it_and_none_goes_under_a_job(house: House, tmp_path: Path):
    house.client.create_compute(
        {"name": "lab", "type": "netlab", "nodes": 3, "cpus": 1, "min_instances": 0, "idle_time_before_scale_down": 1}
    )
    assert states(house) == ["off"] * 3
    go = tmp_path / "go"
    first = submitted(house, f"while [ ! -e {go} ]; do sleep 0.1; done", nodes=2)
    until(lambda: house.client.get(first).state == "running", 120)
    story = [line.sentence for line in house.client.get(first).story]
    assert any("waits for lab-1 and lab-2, which are being started" in one for one in story), story
    assert states(house) == ["running", "running", "off"]

    second = submitted(house, "true", nodes=1)
    assert house.client.wait(second, 120).state == "completed"
    until(lambda: states(house) == ["running", "running", "off"], 60, "the idle node goes, and no other")
    story = [line.sentence for line in house.client.get(second).story]
    assert any("waits for lab-3, which is being started (usually" in one for one in story), story

    go.touch()
    assert house.client.wait(first, 120).state == "completed"
    until(lambda: states(house) == ["off"] * 3, 60, "all nodes go")
    shown = house.client.compute("lab")
    assert shown.trouble == ""
    assert shown.machines[0].why == "no job needs it"
    assert shown.machines[0].since is not None

    scaled = house.client.scale_compute("lab", min_instances=1, max_instances=2)
    assert scaled.scale is not None
    assert (scaled.scale.min_instances, scaled.scale.max_instances) == (1, 2)
    until(lambda: sorted(states(house)) == ["idle", "off", "off"], 60, "one node stays on")
    with pytest.raises(SpecError, match="max_instances is 4, but there are at most 3 nodes"):
        house.client.scale_compute("lab", max_instances=4)
    with pytest.raises(RefusedError, match="has a fixed number of machines"):
        house.client.scale_compute("local", max_instances=4)

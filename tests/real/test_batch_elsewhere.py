"""Parallel steps on machines with addresses of their own, of which one is lost, in pods, and on Ray's nodes."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from drumbeat.model.errors import NotFoundError
from drumbeat.model.states import State

from .clusters import kubernetes, ray
from .house import House, until
from .places import Place, netlab, slurm, ssh
from .test_batch import NAMES, STEP, waited, write_step

pytestmark = [pytest.mark.feature("R3"), pytest.mark.thorough]
PLACES = {"netlab": netlab, "ssh": ssh, "slurm": slurm}


@pytest.fixture(params=PLACES)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    with PLACES[request.param](tmp_path) as made:
        yield made


def submit(house: House, compute: str, pause_s: float) -> None:
    """Runs a step `p_score` of two nodes over 40 files."""
    file = write_step(house.folder / "p", pause_s)
    more = f"    compute: {compute}\n    drumbeat: {{lost_after_s: 20}}\n"
    file.write_text(STEP.replace("    type: parallel\n", f"    type: parallel\n{more}"))
    house.client.submit(file, name="p")


def check(house: House) -> str:
    """Every file was scored once, by both nodes; returns the logs."""
    job = waited(house, "p")
    assert job.state is State.COMPLETED, f"{job.sentence}\n{house.run('show', 'p_score').stdout}"
    done = house.run("download", "p_score", "--outputs", "scores", "--to", house.folder / "got")
    assert done.returncode == 0, done.stderr
    [scores] = [one for one in (house.folder / "got").rglob("*") if one.is_file()]
    assert scores.read_text().splitlines() == [f"{name} x" for name in NAMES]
    text = "".join(house.logs("p_score").values())
    assert {line.split()[1] for line in text.splitlines() if line.startswith("took")} == {"0", "1"}
    return text


def test_parallel_step_on_two_machines_goes_on_without_the_one_that_is_lost(place: Place) -> None:
    house = place.house
    submit(house, place.compute, 1.0)

    def has_begun() -> bool:
        with contextlib.suppress(NotFoundError):
            return all(house.logs("p_score").get(rank, "").count("took") > 1 for rank in (0, 1))
        return False

    until(has_begun, 150, "mini-batches of both nodes")
    place.switch_off(house.client.get("p_score").nodes[1].host)
    text = check(house)
    assert house.client.get("p_score").attempt == 2
    earlier = text.partition("of them by earlier attempts")
    assert earlier[1], text


@pytest.mark.timeout(600)
@pytest.mark.parametrize("make", [kubernetes, ray])
def test_parallel_step_in_pods_and_on_rays_nodes_scores_each_file_once(
    make: Callable[[Path], AbstractContextManager[House]], tmp_path: Path
) -> None:
    with make(tmp_path) as house:
        submit(house, "rack", 0.2)
        check(house)

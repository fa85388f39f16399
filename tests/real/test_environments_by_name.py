"""Environments that jobs name, end to end: the client, a server, and nodes that make them from wheels in a folder."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from drumbeat import Client
from drumbeat.model.api.jobs import JobView

from . import places
from .house import House, a_house
from .wheels import wheel

PRINTS = """python -c 'import tiny; print("tiny", tiny.version, tiny.__file__)'"""


@pytest.fixture
def wheels(tmp_path: Path) -> Path:
    for version in ("1.0", "2.0"):
        wheel(tmp_path / "wheels", "tiny", version)
    return tmp_path / "wheels"


@pytest.fixture
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[House]:
    monkeypatch.setenv("DRUMBEAT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")  # So pip makes them, whether or not there is a uv.
    with a_house(tmp_path) as there:
        yield there


def requirements(house: House, wheels: Path, *lines: str, file: str = "requirements.txt") -> Path:
    path = house.folder / file
    path.write_text("\n".join(("--no-index", f"--find-links {wheels}", *lines, "")))
    return path


def node_log(house: House, job: str) -> str:
    return house.logs(job).get(-1, "")


@pytest.mark.feature("E1")
@pytest.mark.thorough
def test_ten_jobs_at_once_have_a_new_environment_made_once_and_the_next_one_finds_it(house: House, wheels: Path):
    requirements(house, wheels, "tiny==1.0")
    made = house.run("environment", "create", "mine", "--requirements", house.folder / "requirements.txt")
    assert made.returncode == 0, made.stderr
    ended: dict[int, JobView | None] = {}

    def run_one(n: int) -> None:
        with Client(home=house.home) as client:
            name = client.submit({"command": PRINTS, "environment": "azureml:mine:1"}, name=f"job-{n}").name
            ended[n] = client.wait(name, 240)

    house.client.status()
    threads = [threading.Thread(target=run_one, args=(n,)) for n in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [one.state if one else None for one in ended.values()] == ["completed"] * 10
    logs = [node_log(house, f"job-{n}") for n in range(10)]
    assert sum("Successfully installed tiny-1.0" in text or "+ tiny==1.0" in text for text in logs) == 1
    assert sum("building environment mine:1" in text for text in logs) == 1
    assert len({house.logs(f"job-{n}")[0] for n in range(10)}) == 1, "all ran in one folder"
    assert "tiny 1.0" in house.logs("job-0")[0]
    shown = house.run("environment", "show", "mine").stdout
    assert "used by" in shown
    assert len(house.client.environment("mine").jobs) == 10
    run_one(10)
    assert "building environment" not in node_log(house, "job-10")


@pytest.mark.feature("E1", "E4")
@pytest.mark.thorough
def test_the_same_content_under_another_name_and_spelling_is_not_made_again(house: House, wheels: Path):
    first = house.job_file(command=PRINTS, environment="{conda_file: ../requirements.txt}")
    requirements(house, wheels, "tiny == 2.0  # the newest")
    job = house.client.submit(first)
    assert (ended := house.client.wait(job.name, 120))
    assert ended.state == "completed"
    requirements(house, wheels, "tiny==2.0")
    made = house.run("environment", "create", "other", "--requirements", house.folder / "requirements.txt")
    assert made.returncode == 0, made.stderr
    built = house.run("environment", "build", "other")
    assert built.returncode == 0, built.stdout + built.stderr
    assert "Python 3" in built.stdout
    assert "building environment" in node_log(house, job.name)
    assert "building environment" not in node_log(house, built.stdout.splitlines()[0])


@pytest.mark.feature("E4")
@pytest.mark.thorough
def test_a_wrong_requirement_fails_with_its_file_and_line(house: House, wheels: Path):
    conda = house.folder / "environment.yml"
    conda.write_text(
        f"dependencies:\n- pip\n- pip:\n  - --no-index\n  - --find-links {wheels}\n  - tiny\n  - nosuchpackage==9\n"
    )
    file = house.job_file(command=PRINTS, environment="{conda_file: ../environment.yml}")
    shown = house.run("run", file)
    assert shown.returncode != 0
    assert "environment.yml, line 7" in shown.stdout + shown.stderr
    assert "No matching distribution found for nosuchpackage==9" in shown.stdout, "the build's own words, live"


@pytest.mark.feature("E1", "E2")
def test_a_curated_name_is_what_a_person_makes_of_it(house: House, wheels: Path):
    requirements(house, wheels, "tiny==1.0")
    file = house.job_file(command=PRINTS, environment="azureml:AzureML-sklearn-1.5:7")
    shown = house.run("plan", file)
    assert "is drumbeat's own 'sklearn'" in shown.stdout
    assert "made of      11 packages with pip, any Python; key " in shown.stdout
    made = house.run("environment", "create", "AzureML-sklearn-1.5", "-r", house.folder / "requirements.txt")
    assert made.returncode == 0, made.stderr
    ran = house.run("run", file)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "tiny 1.0" in ran.stdout


@pytest.mark.feature("L12")
@pytest.mark.thorough
def test_a_computes_preparation_comes_before_the_jobs_on_every_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("DRUMBEAT_CACHE", str(tmp_path / "cache"))
    with places.netlab(tmp_path) as place:
        house = place.house
        lab = {"name": "lab", "type": "netlab", "nodes": 3, "cpus": 4}
        house.client.create_compute({**lab, "prepare": "set -e\necho \"the compute's\"; true 'quoted'"})
        keys = {"compute": "lab", "resources": "{instance_count: 2}", "command": "echo ranks"}
        good = house.client.submit(house.job_file(**keys, drumbeat="{prepare: echo the own}"))
        ended = house.client.wait(good.name, 120)
        assert ended
        assert ended.state == "completed"
        told: dict[int, str] = {}
        for piece in house.client.logs(good.name):
            if piece.rank < 0:
                told[piece.node] = told.get(piece.node, "") + piece.text
        ours = {node: [line for line in text.splitlines() if line.startswith("the ")] for node, text in told.items()}
        assert ours == {key: ["the compute's", "the own"] for key in range(2)}
        house.client.create_compute({**lab, "prepare": "set -e\nfalse\necho never"})
        bad = house.client.submit(house.job_file(**keys, drumbeat="{prepare: echo the own, max_retries: 0}"))
        ended = house.client.wait(bad.name, 120)
        assert ended
        assert ended.state == "failed"
        text = node_log(house, bad.name)
        assert "never" not in text
        assert "the own" not in text
